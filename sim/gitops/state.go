package gitops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// State is how far a controller is with an object of its.
type State struct {
	Exists  bool
	Ready   bool   // and about the object's current generation
	Reason  string // of the Ready condition
	Message string
	// Revision is what a Kustomization has applied last, as branch@sha1:commit.
	Revision string
}

// Kustomization is the state of one in Namespace.
func (t *Target) Kustomization(ctx context.Context, name string) (State, error) {
	return t.state(ctx, kustomizationKind, Namespace, name)
}

// Repository is the state of the GitRepository that Sync made.
func (t *Target) Repository(ctx context.Context) (State, error) {
	return t.state(ctx, gitRepositoryKind, Namespace, SyncName)
}

// HelmRepository is the state of a Helm repository.
func (t *Target) HelmRepository(ctx context.Context, namespace, name string) (State, error) {
	return t.state(ctx, helmRepositoryKind, namespace, name)
}

// Release is the state of a HelmRelease.
func (t *Target) Release(ctx context.Context, namespace, name string) (State, error) {
	return t.state(ctx, helmReleaseKind, namespace, name)
}

func (t *Target) state(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (State, error) {
	o := object(kind, namespace, name, nil)
	err := t.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	state := State{Exists: true, Ready: isReady(o)}
	condition := readCondition(o, "Ready")
	state.Reason, state.Message = condition.Reason, condition.Message
	state.Revision, _, _ = unstructured.NestedString(o.Object, "status", "lastAppliedRevision")
	return state, nil
}

// Await waits until a Kustomization of Namespace is ready at a commit of a branch.
// When ctx ends, the error names what is not ready instead.
func (t *Target) Await(ctx context.Context, name, branch, commit string) error {
	revision := branch + "@sha1:" + commit
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last State
	for {
		if state, err := t.Kustomization(ctx, name); err == nil {
			last = state
			if state.Ready && state.Revision == revision {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			unready, err := t.Unready(context.WithoutCancel(ctx))
			return errors.Join(fmt.Errorf("kustomization %s is not ready at %s but at %q: %w; not ready: %s",
				name, revision, last.Revision, context.Cause(ctx), strings.Join(unready, "; ")), err)
		case <-tick.C:
		}
	}
}

// Unready are all objects of Flux's that are not ready, each with its reason.
func (t *Target) Unready(ctx context.Context) ([]string, error) {
	var unready []string
	for _, kind := range []schema.GroupVersionKind{gitRepositoryKind, helmRepositoryKind, helmReleaseKind, kustomizationKind} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := t.client.List(ctx, list); err != nil {
			return unready, fmt.Errorf("list what is not ready: %w", err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; !isReady(o) {
				c := readCondition(o, "Ready")
				unready = append(unready, fmt.Sprintf("%s %s/%s: %s: %s", kind.Kind, o.GetNamespace(), o.GetName(), c.Reason, c.Message))
			}
		}
	}
	return unready, nil
}

// isReady tells whether an object's controller says that it is, of its current
// generation.
func isReady(o *unstructured.Unstructured) bool {
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return observed == o.GetGeneration() && readCondition(o, "Ready").Status == metav1.ConditionTrue
}

func conditionsOf(o *unstructured.Unstructured) []any {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return list
}

// readCondition is a condition of any object; the zero value if it has none.
func readCondition(o *unstructured.Unstructured, kind string) metav1.Condition {
	for _, entry := range conditionsOf(o) {
		fields, ok := entry.(map[string]any)
		if !ok || fields["type"] != kind {
			continue
		}
		text := func(name string) string {
			value, _, _ := unstructured.NestedString(fields, name)
			return value
		}
		generation, _, _ := unstructured.NestedInt64(fields, "observedGeneration")
		condition := metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message"), ObservedGeneration: generation,
		}
		if at, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
			condition.LastTransitionTime = metav1.NewTime(at)
		}
		return condition
	}
	return metav1.Condition{}
}
