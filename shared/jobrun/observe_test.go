package jobrun

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubeopera/platform/shared/runs"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func podAt(podName string, at time.Time, id runs.ID) *corev1.Pod {
	l := wantLabels("run")
	l["kubeopera.io/run-id"] = string(id)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName, Namespace: namespace, UID: types.UID("uid-" + podName), Labels: l, CreationTimestamp: metav1.NewTime(at)},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func jobOf(id runs.ID) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name(id), Namespace: namespace, UID: "uid-job", Labels: wantLabels("run")}}
}

func event(object types.UID, kind, reason, message string, last time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: reason + message, Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{UID: object}, Type: kind, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(last),
	}
}

func podNames(pods []*corev1.Pod) []string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

func TestInspect(t *testing.T) {
	t.Parallel()
	c, _ := setup(
		jobOf(id), podAt("second", noon.Add(time.Minute), id), podAt("first", noon, id), podAt("stranger", noon, otherID),
		event("uid-job", "Warning", "FailedCreate", "quota", noon),
		event("uid-second", "Warning", "FailedMount", "later", noon.Add(time.Minute)),
		event("uid-second", "Normal", "Scheduled", "fine", noon.Add(time.Hour)),
		event("uid-first", "Warning", "FailedMount", "of an old pod", noon.Add(time.Hour)),
		outputs(id, map[string]string{"result.json": `{"outcome":"succeeded"}`}),
	)
	seen, err := c.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if seen.Job == nil || !seen.EventsRead || seen.Outputs == nil || seen.Outputs.Result == nil {
		t.Errorf("got %+v", seen)
	}
	if diff := cmp.Diff([]string{"first", "second"}, podNames(seen.Pods)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	want := []runs.StartProblem{{Reason: "FailedMount", Message: "later"}, {Reason: "FailedCreate", Message: "quota"}}
	if diff := cmp.Diff(want, seen.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if seen, err = c.Inspect(t.Context(), otherID); err != nil || seen.Job != nil || seen.Outputs == nil || len(seen.Pods) != 1 {
		t.Errorf("a run without a Job: %+v, %v", seen, err)
	}
}

func TestInspectOfABegunPodReadsNoEvents(t *testing.T) {
	t.Parallel()
	begun := podAt("pod", noon, id)
	begun.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "terraform", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	c, client := setup(jobOf(id), begun)
	if seen, err := c.Inspect(t.Context(), id); err != nil || !seen.Begun() {
		t.Fatalf("got %+v, %v", seen, err)
	}
	for _, a := range client.Actions() {
		if a.GetResource().Resource == "events" {
			t.Error("events were read")
		}
	}
}

// TestObserve reads through the caches once they are filled, and asks the API
// server before and after, and for a Job that the caches do not have.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job, pod := jobOf(id), podAt("pod", noon, id)
		pod.Spec.NodeName, pod.Spec.Volumes = "node-1", []corev1.Volume{{Name: "workspace"}}
		pod.Spec.InitContainers = []corev1.Container{{Name: "git-clone", Image: "runner:1", Args: []string{"clone"}}}
		pod.Spec.Containers = []corev1.Container{{Name: "terraform", Image: "runner:1", Args: []string{"run"}}}
		job.Spec.Template.Spec = pod.Spec
		c, client := setup(job, pod.DeepCopy())
		asked := func(do func()) int {
			before := len(client.Actions())
			do()
			return len(client.Actions()) - before
		}
		look := func(id runs.ID, wantJob bool, wantPods int) {
			t.Helper()
			seen, err := c.Observe(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if (seen.Job != nil) != wantJob || len(seen.Pods) != wantPods || seen.EventsRead || seen.Outputs != nil {
				t.Errorf("got %+v", seen)
			}
		}
		if n := asked(func() { look(id, true, 1) }); n != 2 {
			t.Errorf("%d requests before there are caches, want 2", n)
		}

		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Second) //nolint:forbidigo // a fake clock's
		synctest.Wait()
		if c.caches.Load() == nil {
			t.Fatal("the caches are not filled")
		}
		if n := asked(func() { look(id, true, 1) }); n != 0 {
			t.Errorf("%d requests with caches, want none", n)
		}
		if n := asked(func() { look(otherID, false, 0) }); n != 1 {
			t.Errorf("%d requests for an absent Job, want 1", n)
		}

		pod.Status.Phase = corev1.PodRunning
		if _, err := client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		seen, err := c.Observe(t.Context(), id)
		if err != nil || seen.Pods[0].Status.Phase != corev1.PodRunning {
			t.Fatalf("the cache does not follow: %+v, %v", seen, err)
		}
		want := corev1.PodSpec{
			NodeName:       "node-1",
			InitContainers: []corev1.Container{{Name: "git-clone", Image: "runner:1"}},
			Containers:     []corev1.Container{{Name: "terraform", Image: "runner:1"}},
		}
		if diff := cmp.Diff(want, seen.Pods[0].Spec); diff != "" {
			t.Errorf("what the cache holds of the pod (-want +got):\n%s", diff)
		}

		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if n := asked(func() { look(id, true, 1) }); n != 2 {
			t.Errorf("%d requests after the caches are gone, want 2", n)
		}
	})
}

func TestLastSeen(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]corev1.Event{
		"last timestamp": {LastTimestamp: metav1.NewTime(noon)},
		"event time":     {EventTime: metav1.NewMicroTime(noon)},
		"series":         {EventTime: metav1.NewMicroTime(noon.Add(-time.Hour)), Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(noon)}},
		"creation":       {ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}},
	} {
		if got := lastSeen(e); !got.Equal(noon) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
