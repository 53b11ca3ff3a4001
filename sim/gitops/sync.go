package gitops

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SyncName is the name of the GitRepository, the Kustomization and the Secret
// that Sync makes, all in Namespace.
const SyncName = "flux-system"

// Source is the repository, branch and path that a target follows.
type Source struct {
	URL    string // https:// or ssh://
	Branch string
	Path   string // of the folder to apply, from the root

	CA                 []byte // of an HTTPS server, PEM; nil: the machine's
	Username, Password string // for HTTPS; empty: none
	Identity           []byte // private key for SSH
	KnownHosts         []byte // for SSH

	// Interval is how often the branch is looked at; bootstrap's minute if 0.
	Interval time.Duration
}

// Sync makes the target follow a repository, as host-cluster-controller does
// after it has installed Flux. Called again it changes what is followed.
func (t *Target) Sync(ctx context.Context, source Source) error {
	if err := t.sync(ctx, source); err != nil {
		return fmt.Errorf("sync %s: %w", source.Path, err)
	}
	return nil
}

func (t *Target) sync(ctx context.Context, source Source) error {
	interval := source.Interval
	if interval == 0 {
		interval = time.Minute
	}
	repository := map[string]any{
		"interval": interval.String(), "url": source.URL, "ref": map[string]any{"branch": source.Branch},
	}
	if secret := source.secret(); len(secret) > 0 {
		if err := t.apply(ctx, object(corev1.SchemeGroupVersion.WithKind("Secret"), Namespace, SyncName, map[string]any{"stringData": secret})); err != nil {
			return err
		}
		repository["secretRef"] = map[string]any{"name": SyncName}
	}
	if err := t.apply(ctx, object(gitRepositoryKind, Namespace, SyncName, map[string]any{"spec": repository})); err != nil {
		return err
	}
	return t.apply(ctx, object(kustomizationKind, Namespace, SyncName, map[string]any{"spec": map[string]any{
		"interval": "10m0s", "path": "./" + strings.TrimPrefix(source.Path, "./"), "prune": true,
		"sourceRef": map[string]any{"kind": gitRepositoryKind.Kind, "name": SyncName},
	}}))
}

// secret is what source-controller reads from the Secret of a repository.
func (s Source) secret() map[string]any {
	secret := map[string]any{}
	for key, value := range map[string]string{
		"username": s.Username, "password": s.Password, "ca.crt": string(s.CA),
		"identity": string(s.Identity), "known_hosts": string(s.KnownHosts),
	} {
		if value != "" {
			secret[key] = value
		}
	}
	return secret
}

// Reconcile makes Flux look at the repository now.
func (t *Target) Reconcile(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, reconcileAt, time.Now().Format(time.RFC3339Nano))
	for _, kind := range []schema.GroupVersionKind{gitRepositoryKind, kustomizationKind} {
		if err := t.client.Patch(ctx, object(kind, Namespace, SyncName, nil), client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("reconcile %s: %w", kind.Kind, err)
		}
	}
	return nil
}
