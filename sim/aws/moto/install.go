package moto

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// What is installed where PATH has nothing. The AWS CLI comes along, because
// kubeconfigs of EKS clusters run it.
const (
	motoRequirement = "moto[server]==5.2.1"
	cliRequirement  = "awscli==1.45.11"
	// environmentName changes with the requirements, so that an old environment is not mistaken for a new one.
	environmentName = "moto-5.2.1-awscli-1.45.11"
)

// ErrMissing says that a tool is neither there nor could be installed.
var ErrMissing = errors.New("missing")

// Tools are paths of programs.
type Tools struct {
	Server string // moto_server
	AWS    string // the AWS CLI
}

// Find returns the tools that PATH has, and installs those that it lacks into
// a virtual environment below cacheDir. Several processes may do so at once.
func Find(ctx context.Context, cacheDir string, log *slog.Logger) (Tools, error) {
	tools := Tools{Server: lookPath("moto_server"), AWS: lookPath("aws")}
	if tools.Server != "" && tools.AWS != "" {
		return tools, nil
	}
	if cacheDir == "" {
		return Tools{}, fmt.Errorf("%w: moto_server or aws is not on PATH, and there is no cache directory to install them into", ErrMissing)
	}
	var requirements []string
	env := filepath.Join(cacheDir, "python", environmentName)
	if tools.Server == "" {
		requirements = append(requirements, motoRequirement)
		tools.Server = filepath.Join(env, "bin", "moto_server")
	}
	if tools.AWS == "" {
		requirements = append(requirements, cliRequirement)
		tools.AWS = filepath.Join(env, "bin", "aws")
	}
	if err := install(ctx, env, requirements, log); err != nil {
		return Tools{}, err
	}
	return tools, nil
}

func lookPath(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// install makes the environment, or adds to it what is missing. A stamp file
// per requirement says that pip had finished.
func install(ctx context.Context, env string, requirements []string, log *slog.Logger) error {
	if err := os.MkdirAll(env, 0o755); err != nil {
		return fmt.Errorf("make directory of the virtual environment: %w", err)
	}
	unlock, err := lock(filepath.Join(env, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	for _, requirement := range requirements {
		name, _, _ := strings.Cut(requirement, "==")
		stamp := filepath.Join(env, ".installed-"+strings.Trim(strings.ReplaceAll(name, "[", "-"), "]"))
		if _, err := os.Stat(stamp); err == nil {
			continue
		}
		python := lookPath("python3")
		if python == "" {
			return fmt.Errorf("%w: python3 is not on PATH, which installs %s; install either", ErrMissing, requirement)
		}
		log.InfoContext(ctx, "installing python package", "requirement", requirement, "dir", env)
		if err := run(ctx, python, "-m", "venv", env); err != nil {
			return fmt.Errorf("%w: python3 -m venv does not work (on Debian it is the package python3-venv): %w", ErrMissing, err)
		}
		pip := filepath.Join(env, "bin", "pip")
		if err := run(ctx, pip, "install", "--quiet", "--disable-pip-version-check", requirement); err != nil {
			return fmt.Errorf("%w: pip cannot install %s: %w", ErrMissing, requirement, err)
		}
		if err := os.WriteFile(stamp, nil, 0o644); err != nil {
			return fmt.Errorf("write stamp: %w", err)
		}
	}
	return nil
}

// run adds the end of a failed program's output to its error.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		const tail = 500
		text := strings.TrimSpace(string(out))
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, text[max(0, len(text)-tail):])
	}
	return nil
}

// lock waits for an exclusive lock on a file, which the kernel frees when this
// process ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}
