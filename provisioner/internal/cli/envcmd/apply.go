package envcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/kubefile"
	"github.com/kubeopera/platform/provisioner/internal/cli/kubemerge"
	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/shared/redact"
)

// kubeconfigFlags say where the kubeconfig goes.
type kubeconfigFlags struct {
	file    string
	options kubemerge.Options
}

func (f *kubeconfigFlags) check() error {
	if f.file == "" && (f.options != kubemerge.Options{}) {
		return exit.Usagef("--context-name, --set-current and --overwrite need --kubeconfig")
	}
	return nil
}

func (c *commands) apply() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply -f FILE [--machines FILE]",
		Short: "Set the machines up",
		Long: `Set the machines up as the environment says, and show how it goes. What is there
already is left alone, so that the same command may be given again at any time.

A machine that fails does not stop the others. The result has a line for each, and
the exit code is 3 if one failed. Ctrl-C stops the scripts that are at work, in
order; a second one ends the program at once.

--kubeconfig adds the administrator's kubeconfig to a file, which need not exist. It
holds a credential: the file is readable by its owner only.`,
		Example: `  kubeopera env apply -f environment.yaml --private-key ~/.ssh/id_ed25519
  kubeopera env apply -f environment.yaml --machines machines.yaml --kubeconfig acme.kubeconfig --timeout 1h`,
		Args: runcmd.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := c.addOptions(cmd)
	var k kubeconfigFlags
	flags := cmd.Flags()
	flags.StringVar(&k.file, "kubeconfig", "", "add the cluster's kubeconfig to this file")
	flags.StringVar(&k.options.Name, "context-name", "", "with --kubeconfig: name of its context, cluster and user (default: the environment's name)")
	flags.BoolVar(&k.options.SetCurrent, "set-current", false, "with --kubeconfig: make it the current context")
	flags.BoolVar(&k.options.Overwrite, "overwrite", false, "with --kubeconfig: replace another cluster's entries of that name")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(o.check(), k.check()); err != nil {
			return err
		}
		t, err := c.target(cmd.Context(), o)
		if err != nil {
			return err
		}
		defer t.close()
		ctx, cancel := runcmd.TimeLimit(cmd.Context(), o.timeout)
		defer cancel()
		work := c.applyMachine
		if t.env.Spec.Cluster != nil {
			work = c.applyCluster
		}
		var kubeconfig redact.Secret
		err = c.show(ctx, o, t, newWatch("apply", t), func(w *watch) (result, error) {
			r, config, err := work(ctx, o, t, w, k.file != "")
			kubeconfig = config
			return r, err
		})
		if k.file == "" || kubeconfig == "" {
			return err
		}
		if k.options.Name == "" {
			k.options.Name = t.env.Name
		}
		// The cluster is there, also if a machine is not or somebody has interrupted.
		return errors.Join(err, kubefile.Merge(context.WithoutCancel(ctx), c.session.Terminal, k.file, []byte(kubeconfig.Reveal()), k.options))
	}
	return cmd
}

// target reads the target of a command that logs in.
func (c *commands) target(ctx context.Context, o *options) (*target, error) {
	t, err := o.target.read(ctx, c.session.Input(), c.session.Terminal)
	if err != nil {
		return nil, err
	}
	return t, t.canLogIn()
}

// show does work and shows how it goes, then the result.
func (c *commands) show(ctx context.Context, o *options, t *target, w *watch, work func(*watch) (result, error)) error {
	var r result
	display := progress.On(c.session.Terminal, o.quiet)
	if o.verbose > 0 {
		display = progress.NewLines(c.stderr)
	}
	err := display.Run(func(show func(progress.Run)) (err error) {
		w.on(show)
		r, err = work(w)
		switch {
		case ctx.Err() != nil:
			w.end(api.StatusCancelled, "stopped")
		case err != nil:
			w.end(api.StatusFailed, firstLine(err.Error()))
		default:
			w.end(api.StatusSucceeded, "all is done")
		}
		return err
	})
	if len(r.Nodes) > 0 {
		r.Environment = t.env.Name
		if err := output.Print(c.session.Terminal.Out, *o.format, r.table()); err != nil {
			return err
		}
		if failure := r.failure(); failure != nil {
			err = failure
		}
	}
	return o.ending(ctx, err)
}

func (c *commands) applyCluster(ctx context.Context, o *options, t *target, w *watch, _ bool) (result, redact.Secret, error) {
	cp := c.library.Cluster(t, c.log(o, func(string) {}), w.node)
	r, err := cp.ProvisionClusterContext(ctx, t.nodes)
	return resultOf(r), cp.Kubeconfig(), err
}

func resultOf(r *provisioner.ClusterResult) result {
	var out result
	if r != nil {
		for _, n := range r.Nodes {
			out.Nodes = append(out.Nodes, nodeOf(n))
		}
	}
	return out
}

func (c *commands) applyMachine(ctx context.Context, o *options, t *target, w *watch, wantsKubeconfig bool) (result, redact.Secret, error) {
	name := t.nodes[0].Name
	failed := func(phase string, err error) (result, redact.Secret, error) {
		w.node(provisioner.NodeProgress{Node: name, Phase: provisioner.PhaseFailed, Message: err.Error()})
		return result{Nodes: []node{nodeOf(provisioner.NodeResult{Name: name, Phase: phase, Step: phase, Err: err})}}, "", err
	}
	w.node(provisioner.NodeProgress{Node: name, Phase: provisioner.PhaseConnecting})
	m, err := c.library.Machine(ctx, t, c.log(o, w.said))
	if err != nil {
		return failed(provisioner.PhaseConnecting, err)
	}
	defer func() { _ = m.Close() }() // all has been said
	w.node(provisioner.NodeProgress{Node: name, Phase: provisioner.PhasePreparing})
	components, err := m.RunContext(ctx, *t.env)
	if err != nil {
		return failed(provisioner.PhasePreparing, err)
	}
	w.node(provisioner.NodeProgress{Node: name, Phase: provisioner.PhaseReady})
	r := result{Nodes: []node{{Name: name, Phase: provisioner.PhaseReady}}, Components: components}
	if !wantsKubeconfig || !t.env.Spec.Kubernetes.Install {
		return r, "", nil
	}
	config, err := m.Kubeconfig(ctx, *t.env)
	if err != nil {
		err = fmt.Errorf("read the kubeconfig: %w", err)
	}
	return r, config, err
}
