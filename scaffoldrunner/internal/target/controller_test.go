package target_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/scaffoldrunner/internal/target"
	"github.com/kubeopera/platform/shared/runner/runnertest"
)

// cluster has Deployments, and pods that belong to all of them.
func cluster(t *testing.T, deployments []appsv1.Deployment, pods ...corev1.Pod) *target.Cluster {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: pods}
		if strings.HasSuffix(r.URL.Path, "/deployments") {
			list := appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"}}
			key, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
			for _, d := range deployments {
				if d.Labels[key] == value {
					list.Items = append(list.Items, d)
				}
			}
			answer = list
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // a client that is gone needs no answer
	}))
	t.Cleanup(s.Close)
	c, err := target.Connect(write(t, runnertest.Kubeconfig(s, "token")), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// available is a controller as it should be, with the labels of both of upstream's
// ways to install it.
func available(namespace string) appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": "sealed-secrets", "name": "sealed-secrets-controller"}
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sealed-secrets", Generation: 2, Labels: labels}}
	d.Spec.Replicas, d.Spec.Selector = new(int32(1)), &metav1.LabelSelector{MatchLabels: labels}
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: 2, UpdatedReplicas: 1, AvailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
	}
	return d
}

// A controller that never becomes available says which thing is in its way.
func TestController_says_why_it_is_not_available(t *testing.T) {
	t.Parallel()
	waiting := func(reason, message string) corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "sealed-secrets-1"}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		return pod
	}
	unschedulable := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "sealed-secrets-1"}}
	unschedulable.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2 nodes are available:\n  insufficient memory",
	}}
	none := func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }
	for name, tt := range map[string]struct {
		change func(*appsv1.Deployment)
		pods   []corev1.Pod
		want   string // empty: it is available
	}{
		"all is well":           {func(*appsv1.Deployment) {}, nil, ""},
		"no replicas wanted":    {func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 }, nil, "it is scaled to zero"},
		"a new version":         {func(d *appsv1.Deployment) { d.Generation = 3 }, nil, "its newest version is not rolled out yet"},
		"an old version only":   {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 0 }, nil, "0 of 1 replicas are available"},
		"no pod yet":            {none, nil, "0 of 1 replicas are available"},
		"a pod that is created": {none, []corev1.Pod{waiting("ContainerCreating", "")}, "0 of 1 replicas are available"},
		"an image that is not there": {
			none,
			[]corev1.Pod{waiting("ImagePullBackOff", "Back-off pulling image \"registry.example.com/x\"")},
			"0 of 1 replicas are available: pod sealed-secrets-1: ImagePullBackOff: Back-off pulling image \"registry.example.com/x\"",
		},
		"a program that ends": {none, []corev1.Pod{waiting("CrashLoopBackOff", "")}, "0 of 1 replicas are available: pod sealed-secrets-1: CrashLoopBackOff"},
		"no room": {
			none,
			[]corev1.Pod{unschedulable},
			"0 of 1 replicas are available: pod sealed-secrets-1: Unschedulable: 0/2 nodes are available: insufficient memory",
		},
		"for a while only": {func(d *appsv1.Deployment) { d.Status.Conditions = nil }, nil, "it is not Available"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := available("sealed-secrets")
			tt.change(&d)
			got, err := cluster(t, []appsv1.Deployment{d}, tt.pods...).Controller(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Reason); diff != "" || got.Available != (tt.want == "") {
				t.Errorf("available %t, reason (-want +got):\n%s", got.Available, diff)
			}
		})
	}
}

func TestController_refuses_to_choose(t *testing.T) {
	t.Parallel()
	byManifest := available("kube-system")
	delete(byManifest.Labels, "app.kubernetes.io/name")
	other := available("kube-system")
	other.Labels = map[string]string{"name": "something-else"}
	_, err := cluster(t, []appsv1.Deployment{available("sealed-secrets"), byManifest, other}).Controller(t.Context())
	ambiguous, ok := errors.AsType[*target.AmbiguousError](err)
	if !ok {
		t.Fatalf("error %v, want an AmbiguousError", err)
	}
	if diff := cmp.Diff([]string{"kube-system/sealed-secrets", "sealed-secrets/sealed-secrets"}, ambiguous.Controllers); diff != "" {
		t.Errorf("controllers (-want +got):\n%s", diff)
	}
}
