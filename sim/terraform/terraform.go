// Package terraform finds the terraform binary and a filesystem mirror of the
// providers for the simulator's runner image, and downloads what is not on the
// machine into the cache. Downloads are checked: the binary against HashiCorp's
// signed checksums, providers by terraform itself.
package terraform

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hc-install/product"
	"github.com/hashicorp/hc-install/releases"
)

// The versions that are downloaded when the machine has none. The modules are
// tested with exactly these.
const (
	Version            = "1.11.4"
	AWSProviderVersion = "5.100.0"
)

// Installation is what the runner image needs of Terraform.
type Installation struct {
	Binary string // path of terraform
	Mirror string // directory with registry.terraform.io/hashicorp/aws/... in it
}

// Find gives the installation: the binary from TERRAFORM_BINARY, PATH or the
// cache, the mirror from KUBEOPERA_PROVIDER_MIRROR or the cache; what is missing
// is downloaded into the cache.
func Find(ctx context.Context, getenv func(string) string, cache string, log *slog.Logger) (Installation, error) {
	binary, err := findBinary(ctx, getenv, cache, log)
	if err != nil {
		return Installation{}, err
	}
	mirror, err := findMirror(ctx, getenv, cache, binary, log)
	if err != nil {
		return Installation{}, err
	}
	return Installation{Binary: binary, Mirror: mirror}, nil
}

func findBinary(ctx context.Context, getenv func(string) string, cache string, log *slog.Logger) (string, error) {
	if path := getenv("TERRAFORM_BINARY"); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("TERRAFORM_BINARY: %w", err)
		}
		return found, nil
	}
	if found, err := exec.LookPath("terraform"); err == nil {
		// A version manager's wrapper would look for its own files in the sandbox.
		return filepath.EvalSymlinks(found)
	}
	dir := filepath.Join(cache, "terraform-"+Version)
	path := filepath.Join(dir, "terraform")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	log.InfoContext(ctx, "downloading terraform", "version", Version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	installer := &releases.ExactVersion{
		Product:    product.Terraform,
		Version:    version.Must(version.NewVersion(Version)),
		InstallDir: dir,
	}
	path, err := installer.Install(ctx)
	if err != nil {
		return "", fmt.Errorf("download terraform %s (install it on PATH, or point TERRAFORM_BINARY at it): %w", Version, err)
	}
	return path, nil
}

func findMirror(ctx context.Context, getenv func(string) string, cache, binary string, log *slog.Logger) (string, error) {
	if dir := getenv("KUBEOPERA_PROVIDER_MIRROR"); dir != "" {
		if err := checkMirror(dir); err != nil {
			return "", fmt.Errorf("KUBEOPERA_PROVIDER_MIRROR: %w", err)
		}
		return dir, nil
	}
	dir := filepath.Join(cache, "providers-aws-"+AWSProviderVersion)
	if checkMirror(dir) == nil {
		return dir, nil
	}
	log.InfoContext(ctx, "downloading the AWS provider", "version", AWSProviderVersion)
	if err := downloadMirror(ctx, getenv, binary, dir); err != nil {
		return "", fmt.Errorf("download the AWS provider %s (or point KUBEOPERA_PROVIDER_MIRROR at a filesystem mirror that has it): %w", AWSProviderVersion, err)
	}
	return dir, nil
}

func checkMirror(dir string) error {
	aws := filepath.Join(dir, "registry.terraform.io", "hashicorp", "aws")
	if _, err := os.Stat(aws); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds no hashicorp/aws: %s is missing", dir, aws)
	} else if err != nil {
		return err
	}
	return nil
}

func downloadMirror(ctx context.Context, getenv func(string) string, binary, dir string) error {
	work, err := os.MkdirTemp("", "sim-terraform-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	config := fmt.Sprintf(`terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "= %s"
    }
  }
}
`, AWSProviderVersion)
	if err := os.WriteFile(filepath.Join(work, "main.tf"), []byte(config), 0o600); err != nil {
		return err
	}
	// Into a folder of its own first: a half mirror must not be taken for one.
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	half, err := os.MkdirTemp(filepath.Dir(dir), ".providers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(half)
	cmd := exec.CommandContext(ctx, binary, "providers", "mirror", "-no-color", "-platform="+runtime.GOOS+"_"+runtime.GOARCH, half)
	cmd.Dir = work
	cmd.Env = []string{"HOME=" + work, "PATH=" + getenv("PATH"), "CHECKPOINT_DISABLE=1"}
	for _, key := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value := getenv(key); value != "" {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("terraform providers mirror: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return os.Rename(half, dir)
}
