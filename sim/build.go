package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// FindRoot is the checkout that dir is in: the nearest folder upwards with a
// go.work file.
func FindRoot(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the simulator runs from a checkout of the platform: no go.work here or above")
		}
		dir = parent
	}
}

// CacheDir is where what is built or downloaded once is kept.
func CacheDir(getenv func(string) string) (string, error) {
	if dir := getenv("KUBEOPERA_CACHE"); dir != "" {
		return dir, nil
	}
	if dir := getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "kubeopera"), nil
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".cache", "kubeopera"), nil
	}
	return "", errors.New("no place for the cache: set HOME or KUBEOPERA_CACHE")
}

// ControlPlaneAssets gives the directory with the control plane's binaries,
// which tools/control-plane finds, downloads or builds; progress says how.
func ControlPlaneAssets(ctx context.Context, root string, progress io.Writer) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "tools", "control-plane"))
	cmd.Stderr = progress
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("control plane binaries (tools/control-plane): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
