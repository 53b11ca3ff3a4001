// Package cluster is a stand-in for a kubeadm cluster's control plane: one real
// etcd and kube-apiserver, which all control-plane machines have in common, and a
// list of etcd members that are none, with etcd's own rules.
//
// A cluster serves through a machine while that machine's member votes and the
// majority of all voting members runs (Cluster.Up). What kubelets and controllers
// would write into the cluster (readiness of nodes, pods of the control plane,
// states of Deployments and DaemonSets, taints that a cloud controller takes
// away, a network's effect) is written by Keep, which runs no pod.
package cluster
