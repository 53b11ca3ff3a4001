package provisioncmd

import (
	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/kubefile"
	"github.com/kubeopera/platform/provisioner/internal/cli/kubemerge"
	"github.com/kubeopera/platform/shared/api"
)

// kubeconfigFlags say where the kubeconfig goes.
type kubeconfigFlags struct {
	output   string
	merge    bool
	internal bool
	options  kubemerge.Options
}

func (f *kubeconfigFlags) check() error {
	switch {
	case f.merge && f.output != "":
		return exit.Usagef("--merge and --output exclude each other")
	case !f.merge && (f.options.Name != "" || f.options.SetCurrent):
		return exit.Usagef("--context-name and --set-current need --merge")
	case !f.merge && f.output == "" && f.options.Overwrite:
		return exit.Usagef("--overwrite needs --merge or --output")
	}
	return nil
}

func (c *commands) kubeconfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubeconfig RUN",
		Short: "Print, save or merge the kubeconfig of the cluster that a run built",
		Long: `Print the kubeconfig of the cluster that a run built, save it to a file, or merge it
into the file that kubectl uses ($KUBECONFIG, else ~/.kube/config).

It holds a credential: files are readable by their owner only. Merging keeps what
the file held beside it, loses nothing of it, and refuses to replace what another
cluster has under the same name unless --overwrite is given.`,
		Example: `  kubeopera provision kubeconfig 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11 --output acme.kubeconfig
  kubeopera provision kubeconfig 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11 --merge --context-name acme --set-current`,
		Args: c.OneRun, ValidArgsFunction: c.Complete(func(run api.Provision) bool {
			return run.Status == api.StatusSucceeded && run.Operation == api.OperationApply || run.Status == api.StatusFailed && run.ErrorCode == "control_plane_incomplete"
		}),
	}
	var f kubeconfigFlags
	flags := cmd.Flags()
	flags.StringVar(&f.output, "output", "", "write it to this file")
	flags.BoolVar(&f.merge, "merge", false, "merge it into $KUBECONFIG or ~/.kube/config")
	flags.BoolVar(&f.internal, "internal", false, "for the address inside the cluster's network, where there are two")
	flags.StringVar(&f.options.Name, "context-name", "", "with --merge: name of its context, cluster and user (default: the cluster's name)")
	flags.BoolVar(&f.options.SetCurrent, "set-current", false, "with --merge: make it the current context")
	flags.BoolVar(&f.options.Overwrite, "overwrite", false, "replace another cluster's entries of that name, or a file that exists")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		p, err := c.Connect("")
		if err != nil {
			return err
		}
		get := p.Kubeconfig
		if f.internal {
			get = p.InternalKubeconfig
		}
		data, err := get(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		switch {
		case f.merge:
			return kubefile.Merge(cmd.Context(), c.session.Terminal, kubefile.Default(c.session.Terminal.Getenv), data, f.options)
		case f.output != "":
			return kubefile.Save(f.output, data, f.options.Overwrite)
		}
		_, err = c.Screen().Write(data)
		return err
	}
	return cmd
}
