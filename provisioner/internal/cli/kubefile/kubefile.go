// Package kubefile puts kubeconfigs into files for commands: in words and exit codes
// what package kubemerge does.
package kubefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/kubemerge"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
)

// Merge merges a kubeconfig into a file, which need not exist, and says so.
func Merge(ctx context.Context, t terminal.Terminal, path string, data []byte, o kubemerge.Options) error {
	change, err := kubemerge.MergeFile(ctx, path, data, o, time.Now())
	if errors.Is(err, kubemerge.ErrTaken) {
		return &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("%w\n  choose another --context-name, or --overwrite it", err)}
	}
	if err != nil {
		return err
	}
	out := t.Err
	if !change.Changed {
		_, err = fmt.Fprintf(out, "%s has the context %s already\n", path, change.Context)
		return err
	}
	_, _ = fmt.Fprintf(out, "merged into %s as context %s\n", path, change.Context)
	if change.Backup != "" {
		_, _ = fmt.Fprintf(out, "what it held is in %s\n", change.Backup)
	}
	where := ""
	if path != Default(t.Getenv) {
		where = "--kubeconfig " + path + " "
	}
	_, err = fmt.Fprintf(out, "  use: kubectl %s--context %s get nodes\n", where, change.Context)
	return err
}

// Default is the file that kubectl would write a new context to: of a list,
// the first that exists, else the last.
func Default(getenv func(string) string) string {
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

// Save writes a kubeconfig to a file of its own. One that holds something else is
// replaced only if that may be overwritten.
func Save(path string, data []byte, overwrite bool) error {
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
