package jobrun

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// Observe gives Job and pods from the caches, without most of their specs. A Job
// that the caches do not have may just have been created, so its absence is asked
// of the API server.
func (c *Cluster) Observe(ctx context.Context, id runs.ID) (runs.Observation, error) {
	filled := c.caches.Load()
	if filled == nil {
		return c.look(ctx, id)
	}
	job, err := filled.jobs.Get(c.jobName(id))
	if err != nil { // the cache's only error is that there is none
		if job, err = c.getJob(ctx, id); err != nil {
			return runs.Observation{}, err
		}
	}
	pods, err := filled.podsOf(id)
	if err != nil {
		return runs.Observation{}, failed("read cached pods of run", string(id), err)
	}
	return runs.Observation{Job: job, Pods: pods}, nil
}

// Inspect asks the API server for all of it. Outputs come last: what a runner
// published before its pod ended is in them.
func (c *Cluster) Inspect(ctx context.Context, id runs.ID) (runs.Observation, error) {
	seen, err := c.look(ctx, id)
	if err != nil {
		return runs.Observation{}, err
	}
	if !seen.Begun() {
		if seen.Problems, err = c.problems(ctx, seen); err != nil {
			return runs.Observation{}, err
		}
	}
	seen.EventsRead = true
	published, err := c.readOutputs(ctx, id)
	if err != nil {
		return runs.Observation{}, err
	}
	seen.Outputs = &published
	return seen, nil
}

// look gives Job and pods from the API server.
func (c *Cluster) look(ctx context.Context, id runs.ID) (runs.Observation, error) {
	job, err := c.getJob(ctx, id)
	if err != nil {
		return runs.Observation{}, err
	}
	pods, err := c.listPods(ctx, id)
	if err != nil {
		return runs.Observation{}, err
	}
	return runs.Observation{Job: job, Pods: pods}, nil
}

// getJob gives the run's Job, nil if there is none.
func (c *Cluster) getJob(ctx context.Context, id runs.ID) (*batchv1.Job, error) {
	name := c.jobName(id)
	job, err := c.client.BatchV1().Jobs(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, failed("get Job", name, err)
	}
	return job, nil
}

// listPods gives the run's pods, oldest first.
func (c *Cluster) listPods(ctx context.Context, id runs.ID) ([]*corev1.Pod, error) {
	selector := c.selector(labels.Set{runcontract.LabelRunID: string(id)})
	list, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, failed("list pods of run", string(id), err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return oldestFirst(pods), nil
}

// pods gives the run's pods, from the cache if it is filled.
func (c *Cluster) pods(ctx context.Context, id runs.ID) ([]*corev1.Pod, error) {
	if filled := c.caches.Load(); filled != nil {
		return filled.podsOf(id)
	}
	return c.listPods(ctx, id)
}

func (c *caches) podsOf(id runs.ID) ([]*corev1.Pod, error) {
	objects, err := c.pods.ByIndex(runIndex, string(id))
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return oldestFirst(pods), nil
}

func oldestFirst(pods []*corev1.Pod) []*corev1.Pod {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return created(a).Compare(created(b)) })
	return pods
}

// problems are the warning events of the Job and its newest pod, newest first.
func (c *Cluster) problems(ctx context.Context, seen runs.Observation) ([]runs.StartProblem, error) {
	var about []metav1.Object
	if seen.Job != nil {
		about = append(about, seen.Job)
	}
	if n := len(seen.Pods); n > 0 {
		about = append(about, seen.Pods[n-1])
	}
	var events []corev1.Event
	for _, object := range about {
		selector := fields.Set{"involvedObject.uid": string(object.GetUID()), "type": corev1.EventTypeWarning}.AsSelector().String()
		list, err := c.client.CoreV1().Events(c.namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return nil, failed("list events of", object.GetName(), err)
		}
		for _, e := range list.Items {
			if e.InvolvedObject.UID == object.GetUID() && e.Type == corev1.EventTypeWarning {
				events = append(events, e)
			}
		}
	}
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return lastSeen(b).Compare(lastSeen(a)) })
	var problems []runs.StartProblem
	for _, e := range events {
		problems = append(problems, runs.StartProblem{Reason: e.Reason, Message: e.Message})
	}
	return problems, nil
}

// lastSeen is when an event happened last; which field says so depends on who
// reported it.
func lastSeen(e corev1.Event) time.Time {
	at := e.CreationTimestamp.Time
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
		if t.After(at) {
			at = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}
