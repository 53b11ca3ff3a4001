package node_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
	"github.com/kubeopera/platform/sim/node"
	"github.com/kubeopera/platform/sim/sandbox"
)

func TestMain(m *testing.M) {
	if err := sandbox.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err) // the tests that need it are skipped
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"),
		goleak.IgnoreAnyFunction("net/http/internal/http2.(*clientConnReadLoop).run"))
}

// shellImage has a shell and what it commonly calls.
const shellImage = "registry.test/shell:1"

// cluster is a control plane with one node.
type cluster struct {
	plane  *controlplane.ControlPlane
	node   *node.Node
	client *kubernetes.Clientset
	dir    string // the node's
}

// start runs a cluster until the test ends.
func start(t *testing.T) *cluster {
	t.Helper()
	if !sandbox.Inside() {
		skip.Missing(t, skip.Namespaces, "the test binary could not enter a sandbox")
	}
	c := &cluster{plane: controlplanetest.Start(t, controlplane.Config{ControllerManager: true}), dir: t.TempDir()}
	var err error
	if c.client, err = kubernetes.NewForConfig(c.plane.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	c.node, err = node.New(node.Config{
		RESTConfig: c.plane.RESTConfig(), TLS: c.plane.KubeletTLS(), Dir: c.dir,
		Images:  map[string]node.Image{shellImage: shell()},
		Labels:  map[string]string{"pool": "simulator"},
		Backoff: 200 * time.Millisecond, MaxLogBytes: 1 << 20,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.node.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-c.node.Ready():
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(30 * time.Second):
		t.Fatal("the node is not ready within 30 s")
	}
	return c
}

func shell() node.Image {
	image := node.Image{Binds: map[string]string{}, Entrypoint: []string{"/bin/sh", "-c"}, Env: map[string]string{"FROM_IMAGE": "yes"}}
	for _, path := range []string{"/bin", "/lib", "/lib64", "/usr", "/etc/ssl", "/etc/alternatives"} {
		if _, err := os.Stat(path); err == nil {
			image.Binds[path] = path
		}
	}
	return image
}

// namespace makes a namespace for one test, with its default account.
func (c *cluster) namespace(t *testing.T) string {
	t.Helper()
	created, err := c.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the default account exists", func() bool {
		_, err := c.client.CoreV1().ServiceAccounts(created.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return created.Name
}

// script is a container that runs a shell script.
func script(name, text string) corev1.Container {
	return corev1.Container{Name: name, Image: shellImage, Args: []string{text}}
}

// podSpec is one that never restarts and has no token.
func podSpec(containers ...corev1.Container) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
		TerminationGracePeriodSeconds: new(int64(20)), Containers: containers,
	}
}

func (c *cluster) createPod(t *testing.T, namespace string, spec corev1.PodSpec) *corev1.Pod {
	t.Helper()
	pod, err := c.client.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: map[string]string{"app": "one"}, Annotations: map[string]string{"note": "a \"quoted\" one"}},
		Spec:       spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (c *cluster) createJob(t *testing.T, namespace string, spec corev1.PodSpec) *batchv1.Job {
	t.Helper()
	job, err := c.client.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed),
			Template: corev1.PodTemplateSpec{Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func (c *cluster) createSecret(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	_, err := c.client.CoreV1().Secrets(namespace).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) createConfigMap(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	_, err := c.client.CoreV1().ConfigMaps(namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitPod waits until the pod is as wanted, and returns it.
func (c *cluster) waitPod(t *testing.T, namespace, name, what string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	untilOr(t, what, func() bool {
		var err error
		pod, err = c.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && wanted(pod)
	}, func() string { return describe(pod) })
	return pod
}

func describe(pod *corev1.Pod) string {
	if pod == nil {
		return "no pod"
	}
	out := fmt.Sprintf("%s %s %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		out += fmt.Sprintf("\n  %s: %s", s.Name, s.State.String())
	}
	return out
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func running(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// waitGone waits until a pod's object does not exist any more.
func (c *cluster) waitGone(t *testing.T, namespace, name string) {
	t.Helper()
	until(t, "the pod is gone", func() bool {
		_, err := c.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// jobPod waits for the pod of the Job.
func (c *cluster) jobPod(t *testing.T, namespace string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	until(t, "the Job has a pod", func() bool {
		pods, err := c.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=job"})
		if err != nil || len(pods.Items) == 0 {
			return false
		}
		pod = &pods.Items[0]
		return true
	})
	return pod
}

// waitJob waits for a condition of the Job to be true.
func (c *cluster) waitJob(t *testing.T, namespace string, condition batchv1.JobConditionType) batchv1.JobCondition {
	t.Helper()
	var found batchv1.JobCondition
	until(t, "the Job is "+string(condition), func() bool {
		job, err := c.client.BatchV1().Jobs(namespace).Get(t.Context(), "job", metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, have := range job.Status.Conditions {
			if have.Type == condition && have.Status == corev1.ConditionTrue {
				found = have
				return true
			}
		}
		return false
	})
	return found
}

// log reads a log through kube-apiserver.
func (c *cluster) log(t *testing.T, namespace, pod string, options corev1.PodLogOptions) string {
	t.Helper()
	stream, err := c.client.CoreV1().Pods(namespace).GetLogs(pod, &options).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	content, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// waitEvent waits for an event of a pod whose message contains a text.
func (c *cluster) waitEvent(t *testing.T, namespace, reason, message string) {
	t.Helper()
	var seen []string
	untilOr(t, "an event "+reason, func() bool {
		events, err := c.client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		seen = nil
		for _, event := range events.Items {
			seen = append(seen, event.Reason+": "+event.Message)
			if event.Reason == reason && strings.Contains(event.Message, message) {
				return true
			}
		}
		return false
	}, func() string { return strings.Join(seen, "\n") })
}

// runPod runs a pod to its end and returns it with the log of its container main.
func (c *cluster) runPod(t *testing.T, namespace string, spec corev1.PodSpec) (*corev1.Pod, string) {
	t.Helper()
	c.createPod(t, namespace, spec)
	pod := c.waitPod(t, namespace, "pod", "the pod has ended", ended)
	return pod, c.log(t, namespace, "pod", corev1.PodLogOptions{Container: spec.Containers[0].Name})
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	untilOr(t, what, condition, func() string { return "" })
}

// untilOr polls a condition that the cluster makes true, and says how things are
// if it does not.
func untilOr(t *testing.T, what string, condition func() bool, explain func() string) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 60 s\n%s", what, explain())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// onDisk tells whether a text is in any file below a directory.
func onDisk(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(content), text) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
