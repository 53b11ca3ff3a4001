// Package controlplane runs a real Kubernetes control plane on 127.0.0.1: etcd
// and kube-apiserver through envtest, and, if asked for, kube-controller-manager
// with the controllers that the platform needs. RBAC and ServiceAccount
// admission are on, as in a cluster of production.
//
// The processes write their logs to files below Config.Dir. They end with Stop;
// a caller that may be killed runs inside a sandbox (package sandbox), which
// ends them too.
//
// There is no scheduler and no node: package node has both.
package controlplane
