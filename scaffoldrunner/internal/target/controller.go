package target

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Controller is a sealed-secrets controller.
type Controller struct {
	Namespace, Name string
	// Available says whether it runs as it should; else Reason says what is wrong.
	Available bool
	Reason    string

	deployment *appsv1.Deployment
}

// String names its Deployment.
func (c Controller) String() string { return "Deployment " + c.Namespace + "/" + c.Name }

// AmbiguousError is for a cluster with several controllers: each opens secrets only
// with its own keys, and both try.
type AmbiguousError struct{ Controllers []string }

// Error names them.
func (e *AmbiguousError) Error() string {
	return "there are several sealed-secrets controllers: " + strings.Join(e.Controllers, ", ")
}

// selectors are what controllers are labelled with: by the chart, and by upstream's
// own manifest.
var selectors = []string{"app.kubernetes.io/name=sealed-secrets", "name=sealed-secrets-controller"}

// Controller finds the controller, wherever it is; nil if there is none.
func (c *Cluster) Controller(ctx context.Context) (*Controller, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var found []appsv1.Deployment
	for _, selector := range selectors {
		list, err := c.client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("list Deployments: %w", err)
		}
		for _, d := range list.Items {
			same := func(o appsv1.Deployment) bool { return o.Namespace == d.Namespace && o.Name == d.Name }
			if !slices.ContainsFunc(found, same) {
				found = append(found, d)
			}
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
	default:
		e := &AmbiguousError{}
		for _, d := range found {
			e.Controllers = append(e.Controllers, d.Namespace+"/"+d.Name)
		}
		slices.Sort(e.Controllers)
		return nil, e
	}
	d := &found[0]
	controller := &Controller{Namespace: d.Namespace, Name: d.Name, deployment: d}
	controller.Reason = unavailable(d)
	controller.Available = controller.Reason == ""
	if !controller.Available {
		if trouble := c.podTrouble(ctx, d); trouble != "" {
			controller.Reason += ": " + trouble
		}
	}
	return controller, nil
}

// unavailable says what a Deployment lacks; empty if it is all there.
func unavailable(d *appsv1.Deployment) string {
	desired := int32(1)
	if d.Spec.Replicas != nil {
		desired = *d.Spec.Replicas
	}
	s := d.Status
	switch {
	case desired == 0:
		return "it is scaled to zero"
	case s.ObservedGeneration < d.Generation:
		return "its newest version is not rolled out yet"
	case s.UpdatedReplicas < desired || s.AvailableReplicas < desired:
		return fmt.Sprintf("%d of %d replicas are available", min(s.UpdatedReplicas, s.AvailableReplicas), desired)
	}
	for _, condition := range s.Conditions {
		if condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return "it is not Available"
}

// podTrouble says why a Deployment's pods do not run; empty if nobody knows. It is
// for a message only: no answer is an answer.
func (c *Cluster) podTrouble(ctx context.Context, d *appsv1.Deployment) string {
	pods, err := c.pods(ctx, d)
	if err != nil {
		return ""
	}
	for _, pod := range pods {
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if w := status.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				return "pod " + pod.Name + ": " + sentence(w.Reason, w.Message)
			}
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return "pod " + pod.Name + ": " + sentence(condition.Reason, condition.Message)
			}
		}
	}
	return ""
}

// pods are a Deployment's pods, those that run first.
func (c *Cluster) pods(ctx context.Context, d *appsv1.Deployment) ([]corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("read the selector of Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	list, err := c.client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("list the pods of Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(running(b), running(a)) })
	return list.Items, nil
}

func running(pod corev1.Pod) int {
	if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
		return 1
	}
	return 0
}

// httpPort is the port of the controller's HTTP API, by number.
const httpPort = 8080

// service finds the Service of the controller's HTTP API, and the name of its port.
func (c *Cluster) service(ctx context.Context, controller *Controller) (name, port string, target intstr.IntOrString, err error) {
	list, err := c.client.CoreV1().Services(controller.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", "", target, fmt.Errorf("list the Services in %s: %w", controller.Namespace, err)
	}
	pod := labels.Set(controller.deployment.Spec.Template.Labels)
	for _, s := range list.Items {
		if len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(pod) || s.Labels["app.kubernetes.io/component"] == "metrics" {
			continue
		}
		for _, p := range s.Spec.Ports {
			// Upstream's own manifest has one port without a name.
			if p.Name == "http" || p.Name == "" && p.Port == httpPort {
				return s.Name, p.Name, p.TargetPort, nil
			}
		}
	}
	return "", "", target, fmt.Errorf("no Service in %s has a port named http for the pods of %s", controller.Namespace, controller)
}

// sentence joins a reason and what goes with it, in bounded length.
func sentence(reason, message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > 300 {
		message = strings.ToValidUTF8(message[:300], "") + "…"
	}
	switch {
	case message == "":
		return reason
	case reason == "":
		return message
	}
	return reason + ": " + message
}
