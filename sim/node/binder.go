package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// bindRetry is how often pods that do not fit are looked at again.
const bindRetry = time.Second

// binder stands in for the scheduler: there is one node, and a pod fits or not.
type binder struct {
	node   *Node
	events record.EventRecorder
	// told holds the last reason of pods that do not fit, so that an event is
	// sent once per reason.
	told map[types.UID]string
}

func newBinder(n *Node, events record.EventRecorder) *binder {
	return &binder{node: n, events: events, told: map[types.UID]string{}}
}

// run binds pods until ctx ends.
func (b *binder) run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(b.node.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", "").String()
		}))
	pods := factory.Core().V1().Pods()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // a pass is due already
		}
	}
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(_, _ any) { notify() },
	}); err != nil {
		return fmt.Errorf("watch pods to bind: %w", err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()

	retry := time.NewTicker(bindRetry)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-retry.C:
			if len(b.told) == 0 {
				continue
			}
		}
		if err := b.pass(ctx, pods.Lister()); err != nil && ctx.Err() == nil {
			b.node.config.Log.WarnContext(ctx, "pods not bound", "error", err)
			notify()
		}
	}
}

// pass binds all pods that fit.
func (b *binder) pass(ctx context.Context, lister listersv1.PodLister) error {
	pods, err := lister.List(labels.Everything())
	if err != nil {
		return err
	}
	waiting := map[types.UID]string{}
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 || pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
			continue
		}
		problem, err := b.problem(ctx, pod)
		if err != nil {
			return err
		}
		if problem == "" {
			err = b.bind(ctx, pod)
		} else {
			waiting[pod.UID] = problem
			if b.told[pod.UID] != problem {
				err = b.refuse(ctx, pod, problem)
			}
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	b.told = waiting
	return nil
}

// problem says in the scheduler's words why a pod does not fit.
func (b *binder) problem(ctx context.Context, pod *corev1.Pod) (string, error) {
	node, err := b.node.client.CoreV1().Nodes().Get(ctx, b.node.config.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	var reasons []string
	if node.Spec.Unschedulable {
		reasons = append(reasons, "1 node(s) were unschedulable")
	}
	if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) {
		reasons = append(reasons, "1 node(s) didn't match Pod's node affinity/selector")
	}
	used := b.node.requests()
	for name, want := range requests(pod) {
		sum := used[name].DeepCopy()
		sum.Add(want)
		if limit, ok := node.Status.Allocatable[name]; ok && sum.Cmp(limit) > 0 {
			reasons = append(reasons, "1 Insufficient "+string(name))
		}
	}
	if len(reasons) == 0 {
		return "", nil
	}
	return "0/1 nodes are available: " + strings.Join(reasons, ", ") + ".", nil
}

func (b *binder) bind(ctx context.Context, pod *corev1.Pod) error {
	name := b.node.config.Name
	err := b.node.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: name},
	}, metav1.CreateOptions{})
	if err == nil {
		b.events.Eventf(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, name)
	}
	return err
}

func (b *binder) refuse(ctx context.Context, pod *corev1.Pod, problem string) error {
	b.events.Event(pod, corev1.EventTypeWarning, "FailedScheduling", problem)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: problem, LastTransitionTime: metav1.Now(),
		}}},
	})
	if err != nil {
		return err
	}
	_, err = b.node.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// requests of a pod: the sum over containers, or the largest init container if
// that is more.
func requests(pod *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, c := range pod.Spec.Containers {
		add(sum, c.Resources.Requests)
	}
	for _, c := range pod.Spec.InitContainers {
		for name, quantity := range c.Resources.Requests {
			if have := sum[name]; quantity.Cmp(have) > 0 {
				sum[name] = quantity.DeepCopy()
			}
		}
	}
	return sum
}

func add(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		have := sum[name]
		have.Add(quantity)
		sum[name] = have
	}
}

// requests of all pods that run on the node.
func (n *Node) requests() corev1.ResourceList {
	n.mu.Lock()
	defer n.mu.Unlock()
	sum := corev1.ResourceList{}
	for _, w := range n.workers {
		if !w.ended() {
			add(sum, requests(w.pod))
		}
	}
	return sum
}
