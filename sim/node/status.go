package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// statusRetry is the pause after a status could not be written.
const statusRetry = 200 * time.Millisecond

// writeStatus writes the status whenever it has changed, and a last time after
// ended is closed.
func (w *worker) writeStatus(ctx context.Context, ended <-chan struct{}) {
	var written corev1.PodStatus
	w.touch()
	for {
		last := false
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		case <-ended:
			last = true
		}
		w.node.pause.wait(ctx)
		status := w.status(written.Conditions)
		for !equality.Semantic.DeepEqual(written, status) {
			err := w.patchStatus(ctx, status)
			if err == nil {
				written = status
				break
			}
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				break // the object is gone, or another pod has its name
			}
			if ctx.Err() == nil {
				w.node.config.Log.WarnContext(ctx, "pod status not written", "pod", w.name, "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(statusRetry):
			}
			status = w.status(written.Conditions)
		}
		if last {
			return
		}
	}
}

// patchStatus writes what this node says of the pod and leaves conditions of
// others alone.
func (w *worker) patchStatus(ctx context.Context, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": w.uid},
		"status":   status,
	})
	if err != nil {
		return err
	}
	_, err = w.node.client.CoreV1().Pods(w.namespace).Patch(ctx, w.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// status is what the kubelet would report now. Conditions that have not changed
// keep their time.
func (w *worker) status(before []corev1.PodCondition) corev1.PodStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	status := corev1.PodStatus{
		Phase:     w.phase(),
		HostIP:    address,
		HostIPs:   []corev1.HostIP{{IP: address}},
		StartTime: &w.started,
		QOSClass:  w.latest.Status.QOSClass,
	}
	if w.ip != "" {
		status.PodIP, status.PodIPs = w.ip, []corev1.PodIP{{IP: w.ip}}
	}
	if w.verdict != nil && final(status.Phase) {
		status.Reason, status.Message = w.verdict.reason, w.verdict.message
	}
	initialized := true
	for _, c := range w.init {
		done := c.terminated != nil && c.terminated.ExitCode == 0
		initialized = initialized && done
		status.InitContainerStatuses = append(status.InitContainerStatuses, c.status(done))
	}
	var unready []string
	for _, c := range w.main {
		if w.allEnded && initialized && c.terminated == nil {
			c.terminated = &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown",
				Message: "The container could not be located when the pod was terminated",
			}
		}
		ready := c.running != nil && c.ready
		if !ready {
			unready = append(unready, c.spec.Name)
		}
		status.ContainerStatuses = append(status.ContainerStatuses, c.status(ready))
	}
	status.Conditions = w.conditions(status.Phase, initialized, unready, before)
	return status
}

// phase follows the kubelet's getPhase. The caller holds mu.
func (w *worker) phase() corev1.PodPhase {
	if w.allEnded {
		if w.verdict != nil || !w.succeeded() {
			return corev1.PodFailed
		}
		return corev1.PodSucceeded
	}
	for _, c := range w.init {
		if c.terminated == nil || c.terminated.ExitCode != 0 {
			return corev1.PodPending
		}
	}
	for _, c := range w.main {
		if c.running == nil && c.terminated == nil && c.last == nil {
			return corev1.PodPending
		}
	}
	return corev1.PodRunning
}

// succeeded tells whether every container ended well. The caller holds mu.
func (w *worker) succeeded() bool {
	for _, c := range w.containers() {
		if c.terminated == nil || c.terminated.ExitCode != 0 {
			return false
		}
	}
	return true
}

// status of a container. The caller holds mu.
func (c *container) status(ready bool) corev1.ContainerStatus {
	status := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, Ready: ready, RestartCount: c.restarts,
		Started: new(c.running != nil),
	}
	if c.pulled {
		status.ImageID = "simulator://" + c.spec.Image
	}
	if c.last != nil {
		status.LastTerminationState.Terminated = c.last
	}
	switch {
	case c.terminated != nil:
		status.State.Terminated = c.terminated
		status.ContainerID = c.terminated.ContainerID
	case c.running != nil:
		status.State.Running = c.running
		status.ContainerID = c.id()
	default:
		waiting := c.waiting
		status.State.Waiting = &waiting
	}
	return status
}

// conditions that the kubelet sets. The caller holds mu.
func (w *worker) conditions(phase corev1.PodPhase, initialized bool, unready []string, before []corev1.PodCondition) []corev1.PodCondition {
	condition := func(kind corev1.PodConditionType, holds bool, reason, message string) corev1.PodCondition {
		if holds {
			return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
		}
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	}
	reason, message := "ContainersNotReady", fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	switch phase {
	case corev1.PodSucceeded:
		reason, message = "PodCompleted", ""
	case corev1.PodFailed:
		reason, message = "PodFailed", ""
	case corev1.PodPending, corev1.PodRunning, corev1.PodUnknown:
	}
	conditions := []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		condition(corev1.PodReadyToStartContainers, w.volumes && !w.allEnded, "", ""),
		condition(corev1.PodInitialized, initialized, "ContainersNotInitialized", "containers with incomplete status: ["+strings.Join(w.incomplete(), " ")+"]"),
		condition(corev1.ContainersReady, len(unready) == 0, reason, message),
		condition(corev1.PodReady, len(unready) == 0, reason, message),
	}
	if w.verdict != nil && w.verdict.condition != nil {
		conditions = append(conditions, *w.verdict.condition)
	}
	now := metav1.Now().Rfc3339Copy()
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		for _, old := range before {
			if old.Type == conditions[i].Type && old.Status == conditions[i].Status {
				conditions[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return conditions
}

// incomplete names the init containers that have not ended well. The caller
// holds mu.
func (w *worker) incomplete() []string {
	var names []string
	for _, c := range w.init {
		if c.terminated == nil || c.terminated.ExitCode != 0 {
			names = append(names, c.spec.Name)
		}
	}
	return names
}
