// Package machine runs a light machine for each EC2 instance of the simulated
// AWS account, those of Auto Scaling groups included: a container that executes
// the instance's user_data as its first boot would.
//
// A machine has its own file tree, disk, host name, process and network
// namespace, an instance metadata service (version 2) with credentials of its
// role, and a network in which the AWS endpoint, the API servers of its cluster
// and their load balancers answer under the addresses that AWS gave them. Its
// programs are this machine's own and read-only: bash, coreutils, curl, openssl,
// Python with the real AWS CLI, the real kubectl. Stand-ins are the package
// manager, systemd, containerd, kubelet and kubeadm (package guest), the web
// (package web), and a cluster's control plane (package cluster), which is one
// real etcd and kube-apiserver however many machines think they run it.
//
// Machines follow the instances: they start, stop, reboot by Reboot, and end with
// them. Everything lives in the sandbox: nothing is left behind.
//
// An Existing machine is one that somebody already has: launched by hand, with an
// SSH server (package sshd) and nothing else on it, reached by its address from
// everywhere here, and with connections that fail on demand.
//
// A program that uses this package calls Enter first thing in main, in place of
// sandbox.Enter, and a test binary first thing in TestMain.
package machine
