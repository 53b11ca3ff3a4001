package gitops

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tools are the directories of binaries and CRDs that tools/build prints.
type Tools struct {
	SealedSecrets, FluxSource, FluxKustomize, FluxHelm string
}

// FindTools runs tools/build of the checkout at root; progress gets what it says.
// With cachedOnly nothing is built: what is missing is an error.
func FindTools(ctx context.Context, root string, cachedOnly bool, progress io.Writer) (Tools, error) {
	var tools Tools
	for module, directory := range map[string]*string{
		"sealed-secrets": &tools.SealedSecrets, "flux-source": &tools.FluxSource,
		"flux-kustomize": &tools.FluxKustomize, "flux-helm": &tools.FluxHelm,
	} {
		args := []string{module}
		if cachedOnly {
			args = []string{"--cached", module}
		}
		cmd := exec.CommandContext(ctx, filepath.Join(root, "tools", "build"), args...)
		cmd.Stderr = progress
		out, err := cmd.Output()
		if err != nil {
			return Tools{}, fmt.Errorf("GitOps controllers (tools/build %s): %w", module, err)
		}
		*directory = strings.TrimSpace(string(out))
	}
	return tools, nil
}

// Kubeseal is the program that users seal with.
func (t Tools) Kubeseal() string { return filepath.Join(t.SealedSecrets, "kubeseal") }

func (t Tools) sealedSecretsController() string {
	return filepath.Join(t.SealedSecrets, "sealed-secrets-controller")
}
func (t Tools) sourceController() string { return filepath.Join(t.FluxSource, "source-controller") }
func (t Tools) kustomizeController() string {
	return filepath.Join(t.FluxKustomize, "kustomize-controller")
}

// fluxCRDs are the directories with Flux's own kinds.
func (t Tools) fluxCRDs() []string {
	return []string{filepath.Join(t.FluxSource, "crds"), filepath.Join(t.FluxKustomize, "crds"), filepath.Join(t.FluxHelm, "crds")}
}

func (t Tools) sealedSecretsCRDs() string { return filepath.Join(t.SealedSecrets, "crds") }
