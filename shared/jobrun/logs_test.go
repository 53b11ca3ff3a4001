package jobrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// logServer is as much of an API server as logs take.
type logServer struct {
	mu   sync.Mutex
	pod  *corev1.Pod
	text map[string]string // container to log
	// onLog is called when a container's log has been sent.
	onLog func(*logServer, string)
}

func (s *logServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.HasSuffix(r.URL.Path, "/log") {
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
		if s.pod != nil {
			list.Items = append(list.Items, *s.pod)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	container := r.URL.Query().Get("container")
	text, ok := s.text[container]
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: "Failure", Reason: metav1.StatusReasonBadRequest, Code: 400, Message: "container is waiting to start"})
		return
	}
	if n, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil {
		lines := strings.SplitAfter(text, "\n")
		lines = lines[:len(lines)-1]
		text = strings.Join(lines[max(0, len(lines)-n):], "")
	}
	_, _ = fmt.Fprint(w, text)
	if s.onLog != nil {
		s.onLog(s, container)
	}
}

func (s *logServer) cluster(t *testing.T) *Cluster {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return New(client, namespace, runcontract.KindProvision, "cluster-provisioner")
}

func podWith(clone, terraform corev1.ContainerState) *corev1.Pod {
	p := podAt("pod", noon, id)
	p.Spec.InitContainers = []corev1.Container{{Name: "git-clone"}}
	p.Spec.Containers = []corev1.Container{{Name: "terraform"}}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "git-clone", State: clone}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "terraform", State: terraform}}
	return p
}

var (
	ended   = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	started = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waits   = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
)

func TestLogs(t *testing.T) {
	t.Parallel()
	failed := podWith(ended, waits)
	failed.Status.Phase = corev1.PodFailed
	tests := []struct {
		name string
		pod  *corev1.Pod
		text map[string]string
		opts runs.LogOptions
		want string
		err  error
	}{
		{name: "no pod", err: runs.ErrNoLogs},
		{name: "a pod that has not begun", pod: podWith(waits, waits), err: runs.ErrNoLogs},
		{name: "all containers in order", pod: podWith(ended, started), text: map[string]string{"git-clone": "c1\nc2\n", "terraform": "t1\n"}, want: "c1\nc2\nt1\n"},
		{name: "the first container alone", pod: podWith(started, waits), text: map[string]string{"git-clone": "c1\n"}, want: "c1\n"},
		{name: "a tail within the last container", pod: podWith(ended, started), text: map[string]string{"git-clone": "c1\n", "terraform": "t1\nt2\nt3\n"}, opts: runs.LogOptions{Tail: 2}, want: "t2\nt3\n"},
		{name: "a tail over both containers", pod: podWith(ended, started), text: map[string]string{"git-clone": "c1\nc2\n", "terraform": "t1\n"}, opts: runs.LogOptions{Tail: 2}, want: "c2\nt1\n"},
		{name: "a tail while the first container runs", pod: podWith(started, waits), text: map[string]string{"git-clone": "c1\nc2\n"}, opts: runs.LogOptions{Tail: 1}, want: "c2\n"},
		{name: "following to the end", pod: podWith(ended, ended), text: map[string]string{"git-clone": "c1\n", "terraform": "t1\n"}, opts: runs.LogOptions{Follow: true}, want: "c1\nt1\n"},
		{name: "following a pod whose first container failed", pod: failed, text: map[string]string{"git-clone": "c1\n"}, opts: runs.LogOptions{Follow: true}, want: "c1\n"},
		{name: "following from a tail", pod: podWith(ended, started), text: map[string]string{"git-clone": "c1\n", "terraform": "t1\nt2\n"}, opts: runs.LogOptions{Follow: true, Tail: 1}, want: "t2\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := (&logServer{pod: test.pod, text: test.text}).cluster(t)
			log, err := c.Logs(t.Context(), id, test.opts)
			if test.err != nil {
				if !errors.Is(err, test.err) {
					t.Fatalf("got %v, want %v", err, test.err)
				}
				return
			}
			if got := readAll(t, log, err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestFollowWaitsForTheNextContainer begins the second container when the first
// one's log has been read.
func TestFollowWaitsForTheNextContainer(t *testing.T) {
	t.Parallel()
	s := &logServer{pod: podWith(started, waits), text: map[string]string{"git-clone": "c1\n"}}
	s.onLog = func(s *logServer, container string) {
		if container == "git-clone" {
			s.pod, s.text["terraform"] = podWith(ended, started), "t1\n"
		}
	}
	log, err := s.cluster(t).Logs(t.Context(), id, runs.LogOptions{Follow: true})
	if got := readAll(t, log, err); got != "c1\nt1\n" {
		t.Errorf("got %q", got)
	}
}

func TestFollowEndsWhenThePodIsGone(t *testing.T) {
	t.Parallel()
	s := &logServer{pod: podWith(started, waits), text: map[string]string{"git-clone": "c1\n"}}
	s.onLog = func(s *logServer, _ string) { s.pod = nil }
	log, err := s.cluster(t).Logs(t.Context(), id, runs.LogOptions{Follow: true})
	if got := readAll(t, log, err); got != "c1\n" {
		t.Errorf("got %q", got)
	}
}

// TestCloseWhileReading closes a log, as a client that goes away makes the HTTP
// side do, while its reader waits for the next container.
func TestCloseWhileReading(t *testing.T) {
	t.Parallel()
	s := &logServer{pod: podWith(started, waits), text: map[string]string{"git-clone": "c1\n"}}
	log, err := s.cluster(t).Logs(t.Context(), id, runs.LogOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(log)
		ended <- err
	}()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a log that was closed while it was read looks complete")
	}
}

func readAll(t *testing.T, log io.ReadCloser, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(log)
	if err := errors.Join(err, log.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}
