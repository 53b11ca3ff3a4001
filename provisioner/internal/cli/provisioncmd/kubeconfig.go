package provisioncmd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
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
		Args: oneRun, ValidArgsFunction: c.completeRuns(func(run api.Provision) bool {
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
		p, err := c.session.Provisioner()
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
			return c.merge(cmd, data, f.options)
		case f.output != "":
			return save(f.output, data, f.options.Overwrite)
		}
		_, err = c.screen().Write(data)
		return err
	}
	return cmd
}

func (c *commands) merge(cmd *cobra.Command, data []byte, o kubemerge.Options) error {
	path := kubeconfigFile(c.session.Terminal.Getenv)
	change, err := kubemerge.MergeFile(cmd.Context(), path, data, o, time.Now())
	if errors.Is(err, kubemerge.ErrTaken) {
		return &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("%w\n  choose another --context-name, or --overwrite it", err)}
	}
	if err != nil {
		return err
	}
	out := c.session.Terminal.Err
	if !change.Changed {
		_, err = fmt.Fprintf(out, "%s has the context %s already\n", path, change.Context)
		return err
	}
	_, _ = fmt.Fprintf(out, "merged into %s as context %s\n", path, change.Context)
	if change.Backup != "" {
		_, _ = fmt.Fprintf(out, "what it held is in %s\n", change.Backup)
	}
	_, err = fmt.Fprintf(out, "  use: kubectl --context %s get nodes\n", change.Context)
	return err
}

// kubeconfigFile is the file that kubectl would write a new context to: of a list,
// the first that exists, else the last.
func kubeconfigFile(getenv func(string) string) string {
	var last string
	for _, path := range filepath.SplitList(getenv("KUBECONFIG")) {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err == nil {
			return path
		}
		last = path
	}
	if last != "" {
		return last
	}
	return filepath.Join(getenv("HOME"), ".kube", "config")
}

// save writes a kubeconfig to a file of its own.
func save(path string, data []byte, overwrite bool) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular(): // a pipe or device has nothing to lose
		f, err := os.OpenFile(path, os.O_WRONLY, 0) //nolint:gosec // whoever runs the program names the file
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	case !overwrite:
		there, err := os.ReadFile(path) //nolint:gosec // whoever runs the program names the file
		if err != nil {
			return err
		}
		if !bytes.Equal(there, data) {
			return &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("%s exists and holds something else; --overwrite replaces it, --merge adds to the one that kubectl uses", path)}
		}
	}
	return kubemerge.WriteFile(path, data)
}
