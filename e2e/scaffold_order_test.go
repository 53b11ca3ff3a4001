package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kubeopera/platform/sim/gitops"
)

var kustomizations = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}

// applyOrder is in which order layers were applied, as Kustomizations told it.
type applyOrder struct {
	mu      sync.Mutex
	applied map[string][]string // layers by the commit, in order
}

// watchOrder notes the order until the test ends.
func watchOrder(t *testing.T) *applyOrder {
	t.Helper()
	client, err := dynamic.NewForConfig(platform.Target.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	events, err := client.Resource(kustomizations).Namespace(gitops.Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	o := &applyOrder{applied: map[string][]string{}}
	var watching sync.WaitGroup
	watching.Go(func() {
		for event := range events.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			revision, _, _ := unstructured.NestedString(object.Object, "status", "lastAppliedRevision")
			_, commit, _ := strings.Cut(revision, "@sha1:")
			o.mu.Lock()
			if name := object.GetName(); !slices.Contains(o.applied[commit], name) {
				o.applied[commit] = append(o.applied[commit], name)
			}
			o.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return o
}

// check fails the test unless the infrastructure of a commit was applied before
// what stands on it.
func (o *applyOrder) check(t *testing.T, commit string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	order := o.applied[commit]
	for _, layer := range layers[1:] {
		if i, j := slices.Index(order, layers[0]), slices.Index(order, layer); i < 0 || j < i {
			t.Errorf("of commit %s the order was %v: want %s after %s", commit, order, layer, layers[0])
		}
	}
}
