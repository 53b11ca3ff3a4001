// Package joinfault runs the nodes' bootstrap scripts, as processes, through
// schedules of faults, and checks what the protocol by which nodes join promises.
//
// A World is one account: one Parameter Store (package ssm of the simulated AWS),
// machines, and a stand-in cluster with etcd's rules of membership, join tokens and
// shared certificates that expire, and a load balancer whose name comes late. The
// scripts are the real ones under the real bash; what they call is package standin.
//
// Time is the World's. It stands still while a script computes, and leaps to the
// next thing that is due when all of them wait: for a pause, for an answer of AWS,
// for kubeadm. One script computes at a time, so that a seed gives the same run
// again, however busy the machine is, and an hour of waiting costs seconds.
//
// A Schedule is the shape of a cluster and its Faults, drawn from a seed or written
// by hand. Run plays it and returns a Result: what was violated, how each node
// ended, and the timeline. A schedule that a test has drawn is played again, and
// shown, by
//
//	KUBEOPERA_SEED=<seed> go test ./sim/machine/joinfault -run RandomSchedules -v
//
// The promises: one cluster is made and joined by all; no two control planes are at
// joining at the same time, and no etcd loses its majority by what a script does;
// every node ends as joined, or as failed with its reason in the parameters that the
// platform reads; no secret is in a log, a status or an argument.
package joinfault
