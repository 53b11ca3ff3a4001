package provisioncmd

import (
	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

func (c *commands) create() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create [-f FILE] [flags]",
		Short: "Start a run that builds or changes a cluster",
		Long: `Start a run that builds a cluster, or changes the one that its environment has.

The request comes from a file, from flags, or from both: flags overrule the file.
Without --wait the command returns once the run is accepted.`,
		Example: `  kubeopera provision create --name acme-prod --topology eks --region eu-west-1 \
    --kubernetes-version 1.35 --credential-id 0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b --wait

  kubeopera provision create -f acme-prod.yaml --worker-count 5

  # in a script: repeating it after a crash gives the same run
  RUN=$(kubeopera provision create -f acme-prod.yaml --idempotency-key "$BUILD_ID" -o name)`,
		Args: none, ValidArgsFunction: cobra.NoFileCompletions,
	}
	request, key, following := addRequestFlags(cmd), addKey(cmd), addFollowing(cmd)
	text(request, cmd.Flags(), "operation", "what to do: apply, plan", func(q *api.ProvisionRequest) *api.Operation { return &q.Operation })
	_ = cmd.RegisterFlagCompletionFunc("operation", cobra.FixedCompletions([]string{string(api.OperationApply), string(api.OperationPlan)}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return c.start(cmd, request, *key, following, "") }
	return cmd
}

func (c *commands) plan() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan [-f FILE] [flags]",
		Short: "Start a run that shows what create would change",
		Long: `Start a run that plans and changes nothing: create with the operation plan. Its
message counts what would be added, changed and destroyed; its log has the plan.`,
		Example: `  kubeopera provision plan -f acme-prod.yaml --worker-count 5 --wait`,
		Args:    none, ValidArgsFunction: cobra.NoFileCompletions,
	}
	request, key, following := addRequestFlags(cmd), addKey(cmd), addFollowing(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return c.start(cmd, request, *key, following, api.OperationPlan)
	}
	return cmd
}

// addKey adds --idempotency-key to a command that starts a run.
func addKey(cmd *cobra.Command) *string {
	return cmd.Flags().String("idempotency-key", "", "the same key and request give the same run, however often they are sent (default: a new key)")
}

// start sends the request; operation, unless empty, is the only one that it may have.
func (c *commands) start(cmd *cobra.Command, r *requestFlags, key string, f *following, operation api.Operation) error {
	if err := f.check(); err != nil {
		return err
	}
	request, err := r.read(c.session.Terminal.In)
	if err != nil {
		return err
	}
	if operation != "" {
		if request.Operation != "" && request.Operation != operation {
			return exit.Usagef("%s: the operation is %s; use create for it, or leave it out", r.file, request.Operation)
		}
		request.Operation = operation
	}
	p, err := c.session.Provisioner()
	if err != nil {
		return err
	}
	run, err := keyed(p, key).StartProvision(cmd.Context(), request)
	if err != nil {
		return err
	}
	return c.follow(cmd.Context(), p, run, f)
}

func keyed(p *client.Provisioner, key string) *client.Provisioner {
	if key == "" {
		return p
	}
	return p.WithIdempotencyKey(key)
}
