package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is a node as its machine knows it.
type Node struct {
	Alive      bool     // its kubelet runs
	StaticPods []string // that it runs
	Gone       bool     // its machine is terminated
	Zone       string
	Region     string
	Type       string
}

const (
	keepInterval  = 500 * time.Millisecond
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
)

// Keep keeps the cluster's objects as kubelets and controllers would, until ctx
// ends. nodes gives what is known of the nodes by their names.
func (c *Cluster) Keep(ctx context.Context, nodes func() map[string]Node) {
	for {
		if err := c.keep(ctx, nodes()); err != nil && ctx.Err() == nil {
			c.log.DebugContext(ctx, "cluster not kept", "cluster", c.id, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(keepInterval):
		}
	}
}

func (c *Cluster) keep(ctx context.Context, known map[string]Node) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	sets, err := c.admin.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	deployments, err := c.admin.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	list, err := c.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	network := hasNetwork(sets.Items, deployments.Items) && c.hasInstallation(ctx)
	cloud := slices.ContainsFunc(sets.Items, func(d appsv1.DaemonSet) bool { return strings.Contains(d.Name, "cloud-controller-manager") })
	var problems []error
	readyNodes := 0
	for i := range list.Items {
		node := &list.Items[i]
		state := known[node.Name]
		if cloud && state.Gone {
			problems = append(problems, c.admin.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}))
			continue
		}
		if state.Alive && network {
			readyNodes++
		}
		problems = append(problems, c.keepNode(ctx, node, state, network, cloud))
	}
	problems = append(problems, c.keepPods(ctx, list.Items, known), c.keepWorkloads(ctx, sets.Items, deployments.Items, readyNodes))
	return ignoreRaces(problems)
}

// ignoreRaces leaves out what the next round does anyway.
func ignoreRaces(problems []error) error {
	var left []error
	for _, err := range problems {
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			left = append(left, err)
		}
	}
	return errors.Join(left...)
}

// hasNetwork tells whether a pod network was installed: a DaemonSet of one that is
// known, or an operator that would make it.
func hasNetwork(sets []appsv1.DaemonSet, deployments []appsv1.Deployment) bool {
	for _, d := range sets {
		for _, name := range []string{"calico-node", "cilium", "flannel", "weave-net", "kube-router"} {
			if strings.Contains(d.Name, name) {
				return true
			}
		}
	}
	return slices.ContainsFunc(deployments, func(d appsv1.Deployment) bool { return d.Name == "tigera-operator" })
}

// hasInstallation tells whether Calico's operator was told what to install; true
// where there is no such operator.
func (c *Cluster) hasInstallation(ctx context.Context) bool {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	content, err := c.admin.CoreV1().RESTClient().Get().AbsPath("/apis/operator.tigera.io/v1/installations").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return true
	}
	return err == nil && json.Unmarshal(content, &list) == nil && len(list.Items) > 0
}

// keepNode writes a node's conditions and, for a cloud controller, its labels.
func (c *Cluster) keepNode(ctx context.Context, node *corev1.Node, state Node, network, cloud bool) error {
	want := node.DeepCopy()
	if cloud && state.Alive {
		want.Spec.Taints = without(want.Spec.Taints, uninitialized)
		if want.Labels == nil {
			want.Labels = map[string]string{}
		}
		want.Labels[corev1.LabelTopologyZone] = state.Zone
		want.Labels[corev1.LabelTopologyRegion] = state.Region
		want.Labels[corev1.LabelInstanceTypeStable] = state.Type
	}
	status, reason, message := corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"
	switch {
	case !state.Alive:
		status, reason, message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
	case !network:
		status, reason, message = corev1.ConditionFalse, "KubeletNotReady", "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
	}
	want.Spec.Taints = without(want.Spec.Taints, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
	if status == corev1.ConditionFalse {
		want.Spec.Taints = append(want.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	if status == corev1.ConditionUnknown {
		want.Spec.Taints = append(want.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule})
	}
	if !reflect.DeepEqual(want.Labels, node.Labels) || !sameTaints(want.Spec.Taints, node.Spec.Taints) {
		updated, err := c.admin.CoreV1().Nodes().Update(ctx, want, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		want = updated
	}
	now := metav1.Now()
	for _, old := range want.Status.Conditions {
		if old.Type == corev1.NodeReady && old.Status == status && old.Reason == reason {
			return nil
		}
	}
	want.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	_, err := c.admin.CoreV1().Nodes().UpdateStatus(ctx, want, metav1.UpdateOptions{})
	return err
}

func without(taints []corev1.Taint, keys ...string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return slices.Contains(keys, t.Key) })
}

func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool { return x.Key == y.Key && x.Effect == y.Effect && x.Value == y.Value })
}

// keepPods keeps the mirrors of static pods: they appear with their kubelet and
// go with their node.
func (c *Cluster) keepPods(ctx context.Context, nodes []corev1.Node, known map[string]Node) error {
	pods, err := c.admin.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "tier=control-plane"})
	if err != nil {
		return err
	}
	var problems []error
	there := map[string]bool{}
	for _, pod := range pods.Items {
		node := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == pod.Spec.NodeName })
		state := known[pod.Spec.NodeName]
		if node < 0 || state.Alive && !slices.Contains(state.StaticPods, pod.Labels["component"]) {
			problems = append(problems, c.admin.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
			continue
		}
		there[pod.Name] = true
	}
	for _, node := range nodes {
		state := known[node.Name]
		if !state.Alive {
			continue
		}
		for _, component := range state.StaticPods {
			if !there[component+"-"+node.Name] {
				problems = append(problems, c.mirror(ctx, node, component))
			}
		}
	}
	return ignoreRaces(problems)
}

func (c *Cluster) mirror(ctx context.Context, node corev1.Node, component string) error {
	var address string
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
		}
	}
	pod, err := c.admin.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: component + "-" + node.Name, Labels: map[string]string{"component": component, "tier": "control-plane"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
			Annotations: map[string]string{
				corev1.MirrorPodAnnotationKey:                                   "light-machine",
				"kubeadm.kubernetes.io/" + component + ".advertise-client-urls": "https://" + address + ":2379",
			},
		},
		Spec: corev1.PodSpec{
			NodeName: node.Name, HostNetwork: true, AutomountServiceAccountToken: new(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: component, Image: "registry.k8s.io/" + component + ":light-machine"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, HostIP: address, StartTime: new(metav1.Now()),
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	_, err = c.admin.CoreV1().Pods(metav1.NamespaceSystem).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// keepWorkloads shows every workload as running once a node is ready.
func (c *Cluster) keepWorkloads(ctx context.Context, sets []appsv1.DaemonSet, deployments []appsv1.Deployment, nodes int) error {
	var problems []error
	for _, d := range sets {
		count := int32(nodes) //nolint:gosec // a handful
		want := appsv1.DaemonSetStatus{
			CurrentNumberScheduled: count, DesiredNumberScheduled: count, NumberReady: count, NumberAvailable: count,
			UpdatedNumberScheduled: count, ObservedGeneration: d.Generation,
		}
		if !reflect.DeepEqual(d.Status, want) {
			problems = append(problems, c.patchStatus(want, func(patch []byte) error {
				_, err := c.admin.AppsV1().DaemonSets(d.Namespace).Patch(ctx, d.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
				return err
			}))
		}
	}
	for _, d := range deployments {
		count, available := int32(0), corev1.ConditionFalse
		if nodes > 0 {
			count, available = 1, corev1.ConditionTrue
			if d.Spec.Replicas != nil {
				count = *d.Spec.Replicas
			}
		}
		if d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == count && len(d.Status.Conditions) > 0 &&
			d.Status.Conditions[0].Status == available {
			continue
		}
		want := appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: count, UpdatedReplicas: count, ReadyReplicas: count, AvailableReplicas: count,
			Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentAvailable, Status: available, Reason: "LightMachine",
				LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		}
		problems = append(problems, c.patchStatus(want, func(patch []byte) error {
			_, err := c.admin.AppsV1().Deployments(d.Namespace).Patch(ctx, d.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		}))
	}
	return ignoreRaces(problems)
}

func (c *Cluster) patchStatus(status any, patch func([]byte) error) error {
	content, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	return patch(content)
}
