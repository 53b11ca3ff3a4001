// Package workdir makes the folder that Terraform works in.
//
// The rendered environment is a mounted ConfigMap: read-only, and made of links
// into a folder whose name changes. Terraform wants to write beside its
// configuration, so the files are copied to a folder of the same depth in the
// clone, from where "../../modules" is the same modules folder.
package workdir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubeopera/platform/shared/runcontract"
)

// lockFile is where Terraform looks for the providers' lock file.
const lockFile = ".terraform.lock.hcl"

// Path is where the working folder of an environment is, inside the clone.
func Path(modulesDir, environment string) string {
	return filepath.Join(modulesDir, "run", environment)
}

// Create copies the environment's files to dir, which is emptied first. The
// run spec is not Terraform's business and stays behind. providerLock is the
// lock file that belongs to the image's provider mirror; empty or missing means
// that terraform init makes one from the mirror.
func Create(dir, environmentDir, providerLock string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("empty the working folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the working folder: %w", err)
	}
	entries, err := os.ReadDir(environmentDir)
	if err != nil {
		return fmt.Errorf("read the rendered environment: %w", err)
	}
	copied := 0
	for _, e := range entries {
		// "..data" and its like are the ConfigMap volume's own.
		if strings.HasPrefix(e.Name(), "..") || e.Name() == runcontract.SpecFile {
			continue
		}
		ok, err := copyFile(filepath.Join(dir, e.Name()), filepath.Join(environmentDir, e.Name()))
		if err != nil {
			return err
		}
		if ok {
			copied++
		}
	}
	if copied == 0 {
		return fmt.Errorf("the rendered environment %s holds no file", environmentDir)
	}
	return addProviderLock(dir, providerLock)
}

func addProviderLock(dir, providerLock string) error {
	if providerLock == "" {
		return nil
	}
	target := filepath.Join(dir, lockFile)
	if _, err := os.Lstat(target); err == nil {
		return nil // the environment brought its own
	}
	if _, err := os.Stat(providerLock); os.IsNotExist(err) {
		return nil
	}
	_, err := copyFile(target, providerLock)
	return err
}

// copyFile copies what a link leads to; ok is false for anything but a file.
func copyFile(target, source string) (ok bool, err error) {
	info, err := os.Stat(source)
	if err != nil {
		return false, fmt.Errorf("copy the rendered environment: %w", err)
	}
	if !info.Mode().IsRegular() {
		return false, nil
	}
	data, err := os.ReadFile(source)
	if err != nil {
		return false, fmt.Errorf("copy the rendered environment: %w", err)
	}
	if err := os.WriteFile(target, data, 0o600); err != nil {
		return false, fmt.Errorf("copy the rendered environment: %w", err)
	}
	return true, nil
}
