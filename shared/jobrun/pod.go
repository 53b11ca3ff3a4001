package jobrun

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// killGrace is the grace period of a pod that is killed, in seconds. With 0 the
// API server would drop the object at once, though its containers may still run.
const killGrace = 1

// DeletePod deletes the run's pods that have not ended, with a grace period of a
// second, whatever they had before.
func (c *Cluster) DeletePod(ctx context.Context, id runs.ID) error {
	pods, err := c.listPods(ctx, id)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if podEnded(pod) {
			continue
		}
		options := metav1.DeleteOptions{GracePeriodSeconds: new(int64(killGrace)), Preconditions: &metav1.Preconditions{UID: &pod.UID}}
		if err := c.client.CoreV1().Pods(c.namespace).Delete(ctx, pod.Name, options); err != nil && !apierrors.IsNotFound(err) {
			return failed("delete pod", pod.Name, err)
		}
	}
	return nil
}

// EnvironmentPods asks for the names of an environment's pods that have not ended.
func (c *Cluster) EnvironmentPods(ctx context.Context, environment string) ([]string, error) {
	selector := c.selector(labels.Set{runcontract.LabelEnvironment: environment, runcontract.LabelComponent: runcontract.ComponentRun})
	list, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, failed("list pods of environment", environment, err)
	}
	var names []string
	for i := range list.Items {
		if !podEnded(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}

// podEnded says that no container of a pod runs any more, or will.
func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
