package gitops_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/sim/git"
	"github.com/kubeopera/platform/sim/gitops"
	"github.com/kubeopera/platform/sim/gitops/gitopstest"
)

// sealedSecretsRelease is as the platform's tree has it, from a repository of the
// given host.
func sealedSecretsRelease(host string) string {
	return `apiVersion: v1
kind: Namespace
metadata: {name: sealed-secrets}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: sealed-secrets, namespace: flux-system}
spec: {interval: 12h, url: "https://` + host + `/sealed-secrets"}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: sealed-secrets, namespace: sealed-secrets}
spec:
  interval: 1h
  releaseName: sealed-secrets
  chart:
    spec: {chart: sealed-secrets, version: 2.19.3, sourceRef: {kind: HelmRepository, name: sealed-secrets, namespace: flux-system}}
  values: {fullnameOverride: sealed-secrets, image: {tag: 0.40.0}}
`
}

// layer is a Kustomization of one folder. While it waits for the health of what it
// applied, until its timeout, it does not see a new commit.
func layer(name, rest string) string {
	return `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: ` + name + `, namespace: flux-system}
spec:
  interval: 1h
  retryInterval: 2s
  timeout: 10s
  path: ./clusters/acme/` + name + `
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system}
  ` + rest + "\n"
}

// tree is a tree of two layers, the second of which depends on the first.
func tree(infrastructure, apps string) map[string]string {
	return map[string]string{
		"clusters/acme/kustomization.yaml":                 "resources: [flux-system]\n",
		"clusters/acme/flux-system/kustomization.yaml":     "resources: [gotk-sync.yaml]\n",
		"clusters/acme/flux-system/gotk-sync.yaml":         layer("infrastructure", "wait: true") + "---\n" + layer("apps", "dependsOn: [{name: infrastructure}]"),
		"clusters/acme/infrastructure/infrastructure.yaml": infrastructure,
		"clusters/acme/apps/apps.yaml":                     apps,
	}
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: default, name: app}\ndata: {colour: %s}\n"

// TestFlux reconciles one repository after the other's states with the real
// controllers.
func TestFlux(t *testing.T) {
	target := gitopstest.Start(t)
	target.SetControllerArgs("--key-size=2048")
	server, repository := repository(t)
	repository.Allow(git.Grant{Username: "flux", Password: "token"})
	source := gitops.Source{
		URL: repository.URL(), Branch: git.Branch, Path: "clusters/acme", CA: server.CA(), Username: "flux", Password: "token",
	}

	t.Run("without Flux there is nothing to follow a repository", func(t *testing.T) {
		if err := target.Sync(t.Context(), source); err == nil {
			t.Error("a source could be made")
		}
	})
	started := time.Now()
	if err := target.InstallFlux(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("Flux runs after %s", time.Since(started).Round(time.Millisecond))

	t.Run("a chart repository that has moved shows its answer", func(t *testing.T) {
		commit(t, repository, tree(sealedSecretsRelease("bitnami-labs.github.io"), fmt.Sprintf(configMap, "red")))
		if err := target.Sync(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		until(t, "the repository is not found", func(ctx context.Context) (bool, string) {
			state, err := target.HelmRepository(ctx, "flux-system", "sealed-secrets")
			return !state.Ready && strings.Contains(state.Message, "404"), fmt.Sprint(state, err)
		})
		until(t, "the release waits for it", func(ctx context.Context) (bool, string) {
			state, err := target.Release(ctx, "sealed-secrets", "sealed-secrets")
			return !state.Ready && state.Reason == "SourceNotReady", fmt.Sprint(state, err)
		})
		until(t, "the layer behind it waits", func(ctx context.Context) (bool, string) {
			state, err := target.Kustomization(ctx, "apps")
			return state.Reason == "DependencyNotReady", fmt.Sprint(state, err)
		})
	})
	t.Run("a failed release shows its reason", func(t *testing.T) {
		target.FailRelease("sealed-secrets", "sealed-secrets", gitops.ReleaseFault{Message: "no space left", Stalled: true})
		until(t, "the release is stalled", func(ctx context.Context) (bool, string) {
			state, err := target.Release(ctx, "sealed-secrets", "sealed-secrets")
			return state.Reason == "RetriesExceeded" && strings.HasSuffix(state.Message, "no space left"), fmt.Sprint(state, err)
		})
		until(t, "its layer has given up", func(ctx context.Context) (bool, string) {
			state, err := target.Kustomization(ctx, "infrastructure")
			return state.Reason == "HealthCheckFailed", fmt.Sprint(state, err)
		})
		target.RestoreRelease("sealed-secrets", "sealed-secrets")
	})
	t.Run("layers are applied in order, with the real controller", func(t *testing.T) {
		id := commit(t, repository, tree(sealedSecretsRelease("bitnami.github.io"), fmt.Sprintf(configMap, "green")))
		started := time.Now()
		follow(t, target, id)
		t.Logf("applied %s after the commit", time.Since(started).Round(time.Millisecond))
		if colour(t, target) != "green" {
			t.Error("the second layer was not applied")
		}
		for _, name := range []string{"infrastructure", gitops.SyncName} {
			if state, err := target.Kustomization(t.Context(), name); err != nil || !state.Ready {
				t.Errorf("%s is not ready: %+v, %v", name, state, err)
			}
		}
		certificate := proxied(t, target, gitops.Controller{Namespace: "sealed-secrets", Name: "sealed-secrets"})
		sealed := seal(t, target, certificate, "default", "registry", "password", "hunter2")
		files := tree(sealedSecretsRelease("bitnami.github.io"), fmt.Sprintf(configMap, "green")+sealed)
		follow(t, target, commit(t, repository, files))
		if got := string(secret(t, target, "default", "registry").Data["password"]); got != "hunter2" {
			t.Errorf("password is %q", got)
		}
	})
	t.Run("what leaves the repository leaves the cluster", func(t *testing.T) {
		follow(t, target, commit(t, repository, tree(sealedSecretsRelease("bitnami.github.io"), fmt.Sprintf(configMap, "blue"))))
		if colour(t, target) != "blue" {
			t.Error("the change was not applied")
		}
		// Its Secret goes with it as soon as the garbage collector knows the new kind.
		until(t, "the SealedSecret is gone", func(ctx context.Context) (bool, string) {
			_, err := target.Kubernetes().CoreV1().RESTClient().Get().
				AbsPath("/apis/bitnami.com/v1alpha1/namespaces/default/sealedsecrets/registry").DoRaw(ctx)
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
	})
	t.Run("Flux starts again after it was stopped", func(t *testing.T) {
		target.StopFlux()
		id := commit(t, repository, tree(sealedSecretsRelease("bitnami.github.io"), fmt.Sprintf(configMap, "black")))
		if err := target.InstallFlux(t.Context()); err != nil {
			t.Fatal(err)
		}
		follow(t, target, id)
	})
	t.Run("a repository is followed over SSH", func(t *testing.T) {
		public, identity := key(t)
		repository.Allow(git.Grant{Key: public, ReadOnly: true})
		if err := target.Sync(t.Context(), gitops.Source{
			URL: repository.SSHURL(), Branch: git.Branch, Path: "clusters/acme", Identity: identity, KnownHosts: server.KnownHosts(),
		}); err != nil {
			t.Fatal(err)
		}
		follow(t, target, commit(t, repository, tree(sealedSecretsRelease("bitnami.github.io"), fmt.Sprintf(configMap, "white"))))
	})
}

// follow waits until the last layer is ready at a commit of the main branch.
func follow(t *testing.T, target *gitops.Target, commit string) {
	t.Helper()
	if err := target.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := target.Await(ctx, "apps", git.Branch, commit); err != nil {
		t.Fatal(err)
	}
}

func colour(t *testing.T, target *gitops.Target) string {
	t.Helper()
	object, err := target.Kubernetes().CoreV1().ConfigMaps("default").Get(t.Context(), "app", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.Data["colour"]
}

// key is a new SSH key, the private half as OpenSSH writes it.
func key(t *testing.T) (ssh.PublicKey, []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	converted, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return converted, pem.EncodeToMemory(block)
}
