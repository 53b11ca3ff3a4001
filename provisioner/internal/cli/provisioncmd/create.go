package provisioncmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/request"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/shared/api"
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
		Args: runcmd.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
	}
	r := addRequestFlags(cmd)
	request.Text(r, "operation", "what to do: apply, plan", func(q *api.ProvisionRequest) *api.Operation { return &q.Operation })
	r.Values("operation", string(api.OperationApply), string(api.OperationPlan))
	c.start(cmd, r, "")
	return cmd
}

func (c *commands) plan() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan [-f FILE] [flags]",
		Short: "Start a run that shows what create would change",
		Long: `Start a run that plans and changes nothing: create with the operation plan. Its
message counts what would be added, changed and destroyed; its log has the plan.`,
		Example: `  kubeopera provision plan -f acme-prod.yaml --worker-count 5 --wait`,
		Args:    runcmd.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.start(cmd, addRequestFlags(cmd), api.OperationPlan)
	return cmd
}

// start makes cmd send the request; operation, unless empty, is the only one that
// it may have.
func (c *commands) start(cmd *cobra.Command, r *request.Flags[api.ProvisionRequest], operation api.Operation) {
	c.Start(cmd, func(ctx context.Context, s service, _ []string) (api.Provision, error) {
		q, err := r.Read(c.session.Input())
		if err != nil {
			return api.Provision{}, err
		}
		if operation != "" {
			if q.Operation != "" && q.Operation != operation {
				return api.Provision{}, exit.Usagef("%s: the operation is %s; use create for it, or leave it out", r.File(), q.Operation)
			}
			q.Operation = operation
		}
		return s.StartProvision(ctx, q)
	})
}
