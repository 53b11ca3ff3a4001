package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Of the kubelet's own heartbeat.
	leaseDuration = 40 * time.Second
	leaseRenewal  = 10 * time.Second
)

// register makes or refreshes the Node object.
func (n *Node) register(ctx context.Context, port int) error {
	nodes := n.client.CoreV1().Nodes()
	want := n.object(port)
	node, err := nodes.Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if node, err = nodes.Get(ctx, want.Name, metav1.GetOptions{}); err == nil {
			node.Labels = want.Labels
			node, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	node.Status = want.Status
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("register: set status: %w", err)
	}
	return nil
}

func (n *Node) object(port int) *corev1.Node {
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	labels := map[string]string{
		corev1.LabelHostname:   n.config.Name,
		corev1.LabelOSStable:   runtime.GOOS,
		corev1.LabelArchStable: runtime.GOARCH,
	}
	maps.Copy(labels, n.config.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.config.Name, Labels: labels},
		Status: corev1.NodeStatus{
			Capacity:    n.config.Capacity,
			Allocatable: n.config.Capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address},
				{Type: corev1.NodeHostName, Address: n.config.Name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}}, //nolint:gosec // a port
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: "v1.37.2-simulator", ContainerRuntimeVersion: "simulator://1",
				OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			},
		},
	}
}

// heartbeat renews the node's lease until ctx ends.
func (n *Node) heartbeat(ctx context.Context) error {
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	ticker := time.NewTicker(leaseRenewal)
	defer ticker.Stop()
	for {
		n.pause.wait(ctx)
		now := metav1.NowMicro()
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: n.config.Name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity:       &n.config.Name,
				LeaseDurationSeconds: new(int32(leaseDuration.Seconds())),
				RenewTime:            &now,
			},
		}
		patch, err := json.Marshal(lease)
		if err != nil {
			return fmt.Errorf("encode node lease: %w", err)
		}
		_, err = leases.Patch(ctx, lease.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
		if err != nil && ctx.Err() == nil {
			n.config.Log.WarnContext(ctx, "node lease not renewed", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
