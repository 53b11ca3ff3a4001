package reads

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// reportEvery is how often a runner reports: Terraform says every ten seconds what
// it still waits for.
const reportEvery = 10 * time.Second

// node lets the pods of Jobs run, and reports what their runners would.
type node struct {
	admin     kubernetes.Interface
	namespace string
	jobs      chan seenJob // in the order in which they were created
}

// seenJob is a Job that the API server has announced.
type seenJob struct {
	run string
	at  time.Time
}

// startNode plays the node until the benchmark ends.
func startNode(tb testing.TB, admin kubernetes.Interface, namespace string) *node {
	tb.Helper()
	n := &node{admin: admin, namespace: namespace, jobs: make(chan seenJob, 10*live)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	watch, err := admin.BatchV1().Jobs(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	begun := make(chan string, 10*live)
	var group sync.WaitGroup
	group.Go(func() {
		for event := range watch.ResultChan() {
			job, ok := event.Object.(*batchv1.Job)
			if !ok || event.Type != "ADDED" {
				continue
			}
			run := job.Labels[runcontract.LabelRunID]
			n.jobs <- seenJob{run, time.Now()}
			if err := n.begin(ctx, job); err != nil && ctx.Err() == nil {
				tb.Errorf("let %s run: %v", job.Name, err)
			}
			begun <- run
		}
	})
	group.Go(func() { n.report(ctx, tb, begun) })
	tb.Cleanup(func() {
		watch.Stop()
		cancel()
		group.Wait()
	})
	return n
}

// begin gives a Job a pod whose runner is at work.
func (n *node) begin(ctx context.Context, job *batchv1.Job) error {
	template := job.Spec.Template
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: job.Name + "-abcde", Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID}},
		},
		Spec: template.Spec,
	}
	pod.Spec.NodeName = "node-1"
	pod, err := n.admin.CoreV1().Pods(n.namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	pod.Status.Phase = corev1.PodRunning
	for _, c := range pod.Spec.InitContainers {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: now, FinishedAt: now, Reason: "Completed"}},
		})
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	if _, err := n.admin.CoreV1().Pods(n.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return err
	}
	outputs, err := n.outputs(job.Labels[runcontract.LabelRunID], 1)
	if err != nil {
		return err
	}
	_, err = n.admin.CoreV1().Secrets(n.namespace).Create(ctx, outputs, metav1.CreateOptions{})
	return err
}

// report lets every runner that has begun report in its turn.
func (n *node) report(ctx context.Context, tb testing.TB, begun <-chan string) {
	tb.Helper()
	var runs []string
	var done, next int
	tick := time.NewTicker(reportEvery / live)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case run := <-begun:
			runs = append(runs, run)
			continue
		case <-tick.C:
		}
		if len(runs) == 0 {
			continue
		}
		if next++; next >= len(runs) {
			next, done = 0, done+1
		}
		outputs, err := n.outputs(runs[next], done)
		if err == nil {
			_, err = n.admin.CoreV1().Secrets(n.namespace).Update(ctx, outputs, metav1.UpdateOptions{})
		}
		if err != nil && ctx.Err() == nil {
			tb.Errorf("report: %v", err)
		}
	}
}

// outputs is the Secret that a runner publishes to.
func (n *node) outputs(run string, done int) (*corev1.Secret, error) {
	current := fmt.Sprintf("module.eks.aws_eks_addon.before_nodes[%q]", "kube-proxy")
	progress, err := json.Marshal(runcontract.Progress{
		Phase: api.PhaseApply, Done: done, Total: 1000, Current: current, UpdatedAt: time.Now().UTC(),
		Message: fmt.Sprintf("%s: Still creating... [%ds elapsed]", current, 10*done),
	})
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   runcontract.OutputsSecretName(runcontract.KindProvision, run),
			Labels: map[string]string{runcontract.LabelComponent: runcontract.ComponentOutputs, runcontract.LabelRunID: run},
		},
		Data: map[string][]byte{runcontract.KeyProgress: progress},
	}, err
}
