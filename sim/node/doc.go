// Package node is the simulator's only Kubernetes node: it registers itself,
// binds pods (as a scheduler would) and runs their containers as processes of
// this machine, each in a sandbox.Container of its own.
//
// What callers of Kubernetes see follows the kubelet: phases, conditions and
// waiting reasons, events, exit codes and termination messages, graceful
// deletion, volumes in the kubelet's layout of links, readiness by HTTP and TCP
// probes, logs and port-forwarding through kube-apiserver.
//
// Not modelled: users and groups, capabilities and seccomp, CPU and memory
// limits, liveness and startup probes, lifecycle hooks, sidecar init containers,
// exec and attach, live updates of volumes (tokens are not renewed), persistent
// volumes, affinity and taints, cluster DNS and Service addresses. Without a
// pod network (package podnetwork) all pods share the machine's network and have
// the address 127.0.0.1.
//
// virtual-kubelet was considered: its pod controller deletes a pod's object when
// the grace period is over whether or not its processes have ended, resolves
// environments before volumes exist, and cannot tell tailLines=0 from none. Those
// are the very behaviours that a run engine is tested against here.
//
// A program that uses this package must run inside a sandbox (sandbox.Enter).
package node
