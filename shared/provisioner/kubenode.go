package provisioner

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// kubeNode is what is used of a Node in the Kubernetes API.
type kubeNode struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Taints        []kubeTaint `json:"taints"`
		Unschedulable bool        `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Conditions []kubeCondition `json:"conditions"`
		Addresses  []struct {
			Type    string `json:"type"`
			Address string `json:"address"`
		} `json:"addresses"`
		NodeInfo struct {
			KubeletVersion string `json:"kubeletVersion"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

type kubeTaint struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Effect    string `json:"effect"`
	TimeAdded string `json:"timeAdded,omitempty"`
}

type kubeCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// parseNodes reads what kubectl get nodes -o json prints.
func parseNodes(data []byte) ([]kubeNode, error) {
	var list struct {
		Kind  string     `json:"kind"`
		Items []kubeNode `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read the list of nodes: %w", err)
	}
	if list.Kind != "List" && list.Kind != "NodeList" {
		return nil, fmt.Errorf("read the list of nodes: it is of kind %q", list.Kind)
	}
	for i := range list.Items {
		if !validNodeName(list.Items[i].Metadata.Name) {
			return nil, fmt.Errorf("read the list of nodes: number %d has no usable name", i)
		}
	}
	return list.Items, nil
}

// validNodeName accepts DNS subdomains only: names are words of commands.
func validNodeName(s string) bool {
	if s == "" || len(s) > 253 || strings.Trim(s, "-.") != s {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// role is control-plane or worker.
func (n *kubeNode) role() string {
	if _, ok := n.Metadata.Labels[controlPlaneLabel]; ok {
		return roleControlPlane
	}
	return roleWorker
}

func (n *kubeNode) internalIP() string {
	for _, a := range n.Status.Addresses {
		if a.Type == "InternalIP" {
			return a.Address
		}
	}
	return ""
}

func (n *kubeNode) ready() (bool, kubeCondition) {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True", c
		}
	}
	return false, kubeCondition{Type: "Ready", Status: "Unknown", Reason: "NeverReported"}
}

// hasAddress compares addresses, not their texts: no part of one counts, and
// IPv6 has many spellings.
func (n *kubeNode) hasAddress(ip string) bool {
	want, err := netip.ParseAddr(ip)
	if err != nil {
		return false
	}
	for _, a := range n.Status.Addresses {
		if a.Type != "InternalIP" {
			continue
		}
		if got, err := netip.ParseAddr(a.Address); err == nil && got.Unmap() == want.Unmap() {
			return true
		}
	}
	return false
}

// findNode is the node of a machine: the one with its address, private before
// public; else the one with its name. Nil without an error means that there is
// none.
func findNode(nodes []kubeNode, info NodeInfo) (*kubeNode, error) {
	for _, ip := range []string{info.PrivateIP, info.PublicIP} {
		var found *kubeNode
		for i := range nodes {
			if !nodes[i].hasAddress(ip) {
				continue
			}
			if found != nil {
				return nil, fmt.Errorf("nodes %s and %s both have the address %s", found.Metadata.Name, nodes[i].Metadata.Name, ip)
			}
			found = &nodes[i]
		}
		if found != nil {
			return found, nil
		}
	}
	for i := range nodes {
		if nodes[i].Metadata.Name == strings.ToLower(info.Name) {
			return &nodes[i], nil
		}
	}
	return nil, nil
}
