package jobrun

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// podOf is a pod with a run's labels.
func podOf(podName string, of runs.ID, environment string, phase corev1.PodPhase) *corev1.Pod {
	labels := wantLabels(runcontract.ComponentRun)
	labels[runcontract.LabelRunID], labels[runcontract.LabelEnvironment] = string(of), environment
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName, Namespace: namespace, Labels: labels, UID: types.UID("uid of " + podName)},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func TestDeletePod(t *testing.T) {
	t.Parallel()
	c, client := setup(
		podOf("ended", id, "acme", corev1.PodFailed), podOf("runs", id, "acme", corev1.PodRunning),
		podOf("waits", id, "acme", corev1.PodPending), podOf("another", otherID, "acme", corev1.PodRunning),
	)
	if err := c.DeletePod(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	got := map[string]metav1.DeleteOptions{}
	for _, a := range client.Actions() {
		if d, ok := a.(k8stesting.DeleteActionImpl); ok {
			got[d.Name] = d.DeleteOptions
		}
	}
	options := func(pod string) metav1.DeleteOptions {
		return metav1.DeleteOptions{GracePeriodSeconds: new(int64(1)), Preconditions: &metav1.Preconditions{UID: new(types.UID("uid of " + pod))}}
	}
	if diff := cmp.Diff(map[string]metav1.DeleteOptions{"runs": options("runs"), "waits": options("waits")}, got); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}

func TestDeletePodErrors(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for _, test := range []struct {
		name string
		err  error
		want error
	}{
		{"it has gone meanwhile", apierrors.NewNotFound(pods, "runs"), nil},
		{"no right", apierrors.NewForbidden(pods, "runs", errors.New("no")), runs.ErrKubernetes},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, client := setup(podOf("runs", id, "acme", corev1.PodRunning))
			client.PrependReactor("delete", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			if err := c.DeletePod(t.Context(), id); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestEnvironmentPods(t *testing.T) {
	t.Parallel()
	stranger := podOf("stranger", id, "acme", corev1.PodRunning)
	stranger.Labels[runcontract.LabelManagedBy] = "somebody"
	c, _ := setup(
		podOf("ended", id, "acme", corev1.PodSucceeded), podOf("first", id, "acme", corev1.PodRunning), podOf("second", otherID, "acme", corev1.PodPending),
		podOf("elsewhere", otherID, "acme-2", corev1.PodRunning), stranger,
	)
	got, err := c.EnvironmentPods(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"first", "second"}, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if got, err := c.EnvironmentPods(t.Context(), "nobody"); err != nil || len(got) != 0 {
		t.Errorf("of another environment: %v, %v", got, err)
	}
}
