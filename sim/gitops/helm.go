package gitops

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// helmInterval is how often all releases are looked at.
const helmInterval = 300 * time.Millisecond

// ReleaseFault keeps a release from becoming ready. Nothing of it is installed.
type ReleaseFault struct {
	// Message is why the installation failed, as Helm would say it. Empty: it does
	// not fail but never comes to an end.
	Message string
	// Stalled says that it will not be tried again.
	Stalled bool
}

// FailRelease makes a HelmRelease fail from now on, until RestoreRelease.
func (t *Target) FailRelease(namespace, name string, fault ReleaseFault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[client.ObjectKey{Namespace: namespace, Name: name}] = fault
}

// RestoreRelease lets a HelmRelease become ready.
func (t *Target) RestoreRelease(namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.faults, client.ObjectKey{Namespace: namespace, Name: name})
}

// helm stands in for helm-controller.
type helm struct {
	target *Target
	// installed are the releases that were installed: only a change of its spec
	// makes a release install again.
	installed map[client.ObjectKey]*installation
}

type installation struct {
	generation int64
	since      time.Time
	objects    []*unstructured.Unstructured
}

// startHelm runs the stand-in until it is stopped.
func (t *Target) startHelm(ctx context.Context) (stop func()) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &helm{target: t, installed: map[client.ObjectKey]*installation{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.run(running)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (h *helm) run(ctx context.Context) {
	tick := time.NewTicker(helmInterval)
	defer tick.Stop()
	for {
		if err := h.pass(ctx); err != nil && ctx.Err() == nil {
			h.target.config.Log.WarnContext(ctx, "releases not reconciled", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pass brings all releases forward.
func (h *helm) pass(ctx context.Context) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(helmReleaseKind.GroupVersion().WithKind(helmReleaseKind.Kind + "List"))
	if err := h.target.client.List(ctx, list); err != nil {
		return err
	}
	there := map[client.ObjectKey]bool{}
	for i := range list.Items {
		r := newRelease(&list.Items[i])
		there[r.key] = true
		if r.suspended() {
			continue
		}
		if err := h.reconcile(ctx, r); err != nil {
			return fmt.Errorf("release %s: %w", r.key, err)
		}
	}
	for key, i := range h.installed {
		if there[key] {
			continue
		}
		for _, o := range i.objects { // as for Helm, kinds stay
			if err := client.IgnoreNotFound(h.target.client.Delete(ctx, o)); err != nil {
				return fmt.Errorf("uninstall %s: %w", key, err)
			}
		}
		delete(h.installed, key)
	}
	return nil
}

// reconcile installs a release where it is time and writes how it is.
func (h *helm) reconcile(ctx context.Context, r release) error {
	h.target.mu.Lock()
	fault, faulty := h.target.faults[r.key]
	h.target.mu.Unlock()
	if faulty {
		return h.write(ctx, r, r.faultState(fault))
	}
	obstacle, err := h.obstacle(ctx, r)
	if err != nil {
		return err
	}
	if obstacle != nil {
		return h.write(ctx, r, *obstacle)
	}
	installed := h.installed[r.key]
	if installed == nil || installed.generation != r.object.GetGeneration() {
		if err := h.write(ctx, r, r.progressing()); err != nil {
			return err
		}
		objects, err := h.install(ctx, r)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return h.write(ctx, r, r.failed(err.Error(), false))
		}
		installed = &installation{generation: r.object.GetGeneration(), since: time.Now(), objects: objects}
		h.installed[r.key] = installed
	}
	waiting, err := h.unavailable(ctx, installed)
	switch {
	case err != nil:
		return err
	case waiting == "":
		return h.write(ctx, r, r.succeeded())
	case time.Since(installed.since) > r.timeout():
		return h.write(ctx, r, r.failed("resource "+waiting+" not ready. status: InProgress: context deadline exceeded", false))
	default:
		return h.write(ctx, r, r.progressing())
	}
}

// obstacle is the state of a release whose dependencies or chart's repository are
// not ready, else nil.
func (h *helm) obstacle(ctx context.Context, r release) (*releaseState, error) {
	for _, key := range r.dependsOn() {
		state, err := h.target.Release(ctx, key.Namespace, key.Name)
		if err != nil {
			return nil, err
		}
		if !state.Ready {
			return r.notReady("DependencyNotReady", fmt.Sprintf("dependency '%s' is not ready", key)), nil
		}
	}
	key, kind := r.source()
	if kind != helmRepositoryKind.Kind {
		return nil, nil
	}
	repository := object(helmRepositoryKind, key.Namespace, key.Name, nil)
	err := h.target.client.Get(ctx, key, repository)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	// One for OCI has no status of its own.
	kind, _, _ = unstructured.NestedString(repository.Object, "spec", "type")
	if err == nil && (kind == "oci" || isReady(repository)) {
		return nil, nil
	}
	return r.notReady("SourceNotReady", fmt.Sprintf("HelmChart '%s/%s-%s' is not ready: does not have an artifact",
		key.Namespace, r.key.Namespace, r.key.Name)), nil
}

// install applies what the chart has, as far as it is known here.
func (h *helm) install(ctx context.Context, r release) ([]*unstructured.Unstructured, error) {
	if err := h.target.makeNamespace(ctx, r.releaseNamespace()); err != nil {
		return nil, err
	}
	if !r.skipsCRDs() {
		if err := h.target.installChartCRDs(ctx, r.chart()); err != nil {
			return nil, err
		}
	}
	if r.chart() != sealedSecretsChart {
		return nil, nil
	}
	return h.target.deployController(ctx, r.controller())
}

// unavailable names something of an installation that is not up yet, as Helm's
// wait does; empty: all is.
func (h *helm) unavailable(ctx context.Context, i *installation) (string, error) {
	for _, o := range i.objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		d, err := h.target.kubernetes.AppsV1().Deployments(o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			d = &appsv1.Deployment{}
		} else if err != nil {
			return "", err
		}
		if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas < 1 || d.Status.UpdatedReplicas < 1 {
			return "Deployment/" + o.GetNamespace() + "/" + o.GetName(), nil
		}
	}
	return "", nil
}

// write brings a release's status up to date.
func (h *helm) write(ctx context.Context, r release, state releaseState) error {
	before := r.object.DeepCopy()
	if !r.set(state) {
		return nil
	}
	return client.IgnoreNotFound(h.target.client.Status().Patch(ctx, r.object, client.MergeFrom(before)))
}
