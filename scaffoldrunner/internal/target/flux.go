package target

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Flux's kinds, in the versions that every release of these years serves.
var (
	gitRepositories  = schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"}
	helmRepositories = schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "helmrepositories"}
	kustomizations   = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
	helmReleases     = schema.GroupVersionResource{Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"}
)

// Flux is what Flux says of an environment.
type Flux struct {
	// Missing says why nobody applies the environment's folder; empty if somebody
	// does.
	Missing string
	// Troubles are what does not work, causes first.
	Troubles []string
	// GivenUp is one of them that will not pass by itself; empty: none.
	GivenUp string

	source types.NamespacedName // the GitRepository
}

// Flux reads how far Flux is with an environment's folder. revision is the commit
// that is meant: what Flux says of others counts as passing.
func (c *Cluster) Flux(ctx context.Context, folder, revision string) (Flux, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := c.dynamic.Resource(kustomizations).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return Flux{Missing: "Flux is not on the target"}, nil
	}
	if err != nil {
		return Flux{}, fmt.Errorf("list Flux's Kustomizations: %w", err)
	}
	var root, layer *unstructured.Unstructured
	for i := range all.Items {
		dir, _, _ := unstructured.NestedString(all.Items[i].Object, "spec", "path")
		switch path.Clean("/" + dir) {
		case "/" + folder:
			root = &all.Items[i]
		case "/" + folder + "/infrastructure":
			layer = &all.Items[i]
		}
	}
	if root == nil && layer == nil {
		return Flux{Missing: "Flux is on the target, but nothing there applies " + folder}, nil
	}
	f := Flux{}
	applied := false // the commit that is meant
	if layer != nil {
		attempted, _, _ := unstructured.NestedString(layer.Object, "status", "lastAttemptedRevision")
		applied = revision != "" && strings.Contains(attempted, revision)
	}
	for _, k := range []*unstructured.Unstructured{root, layer} {
		if k != nil && f.source.Name == "" {
			f.source = sourceOf(k)
		}
	}
	if f.source.Name != "" {
		source, err := c.dynamic.Resource(gitRepositories).Namespace(f.source.Namespace).Get(ctx, f.source.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			f.Troubles = append(f.Troubles, fmt.Sprintf("GitRepository %s is not there", f.source))
		case err == nil:
			f.add(source, false) // it has failed before this run's push as well
		}
	}
	f.releases(ctx, c, applied)
	if root != nil {
		f.add(root, applied)
	}
	if layer != nil {
		f.add(layer, applied)
	}
	return f, nil
}

// releases adds what is wrong with the release of sealed-secrets and where its chart
// comes from.
func (f *Flux) releases(ctx context.Context, c *Cluster, applied bool) {
	list, err := c.dynamic.Resource(helmReleases).List(ctx, metav1.ListOptions{})
	if err != nil {
		return // not there yet; what is needed shows without it
	}
	for i := range list.Items {
		release := &list.Items[i]
		chart, _, _ := unstructured.NestedString(release.Object, "spec", "chart", "spec", "chart")
		if !strings.Contains(chart, "sealed-secrets") && !strings.Contains(release.GetName(), "sealed-secrets") {
			continue
		}
		kind, _, _ := unstructured.NestedString(release.Object, "spec", "chart", "spec", "sourceRef", "kind")
		name, _, _ := unstructured.NestedString(release.Object, "spec", "chart", "spec", "sourceRef", "name")
		namespace, _, _ := unstructured.NestedString(release.Object, "spec", "chart", "spec", "sourceRef", "namespace")
		if namespace == "" {
			namespace = release.GetNamespace()
		}
		if kind == "HelmRepository" {
			repository, err := c.dynamic.Resource(helmRepositories).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				f.Troubles = append(f.Troubles, fmt.Sprintf("HelmRepository %s/%s is not there", namespace, name))
			case err == nil:
				f.add(repository, applied)
			}
		}
		f.add(release, applied)
	}
}

func sourceOf(k *unstructured.Unstructured) types.NamespacedName {
	kind, _, _ := unstructured.NestedString(k.Object, "spec", "sourceRef", "kind")
	name, _, _ := unstructured.NestedString(k.Object, "spec", "sourceRef", "name")
	namespace, _, _ := unstructured.NestedString(k.Object, "spec", "sourceRef", "namespace")
	if kind != "GitRepository" {
		return types.NamespacedName{}
	}
	if namespace == "" {
		namespace = k.GetNamespace()
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// add adds what is wrong with one object. final says that its state is that of what
// is meant, so that Stalled is the end.
func (f *Flux) add(o *unstructured.Unstructured, final bool) {
	what := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); suspended {
		f.Troubles = append(f.Troubles, what+" is suspended")
		return
	}
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if observed < o.GetGeneration() {
		return // Flux has not looked yet
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	trouble, stalled := "", false
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok {
			continue
		}
		kind, _ := condition["type"].(string)
		status, _ := condition["status"].(string)
		reason, _ := condition["reason"].(string)
		message, _ := condition["message"].(string)
		switch {
		case kind == "Stalled" && status == "True":
			stalled = true
			if trouble == "" {
				trouble = what + " has stalled: " + sentence(reason, message)
			}
		case kind == "Ready" && status == "False" && reason != "DependencyNotReady":
			trouble = what + " is not ready: " + sentence(reason, message)
		}
	}
	if trouble == "" {
		return
	}
	f.Troubles = append(f.Troubles, trouble)
	if stalled && final && f.GivenUp == "" {
		f.GivenUp = trouble
	}
}

// Nudge makes Flux look at the repository now instead of at its next turn, which is
// a minute away at worst.
func (c *Cluster) Nudge(ctx context.Context, f Flux, now time.Time) error {
	if f.source.Name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, now.UTC().Format(time.RFC3339Nano))
	_, err := c.dynamic.Resource(gitRepositories).Namespace(f.source.Namespace).Patch(ctx, f.source.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("ask Flux to look at the repository: %w", err)
	}
	return nil
}
