// Package leftovers removes from AWS what a cluster has made there by itself and
// Terraform therefore knows nothing of: load balancers of Services and Ingresses
// with their target groups and security groups, volumes of claims and their
// snapshots, network interfaces. Left alone they would outlive the cluster, and
// most of them would keep Terraform from deleting the VPC.
//
// # What is a leftover
//
// Kubernetes' controllers tag what they make with the cluster's name:
//
//	kubernetes.io/cluster/<name> = owned     cloud controller, EBS CSI driver
//	elbv2.k8s.aws/cluster = <name>           AWS Load Balancer Controller
//	cluster.k8s.amazonaws.com/name = <name>  network interfaces of the VPC CNI
//
// Nothing without one of these is ever touched, nor anything outside of the
// environment's own VPC, which is found by its tag kubeopera.io/environment.
// Terraform's own resources, some of which have the cluster's tag too, all have
// the tag kubeopera.io/environment, and what has it is left to Terraform. The
// security group that EKS makes for a cluster is left to EKS for as long as any
// network interface uses it.
//
// Volumes and snapshots are in no VPC, and they are somebody's data: they go last,
// when the VPC is gone, and only if they have the cluster's tag and no machine that
// has it is left in the region. Where there is one, another cluster has the same
// name, and nobody can tell whose a volume is. A volume that a machine uses is never
// removed.
//
// The reclaim policy of a volume is not to be seen in AWS: a volume of a claim is
// removed even if its policy is Retain. What is to outlive the cluster has the tag
// kubeopera.io/retain = true, which a StorageClass or a VolumeSnapshotClass gives
// by its parameter tagSpecification_1, and is reported, not removed.
//
// # When
//
// A cluster's controllers make again what is taken from them, its machines hold
// volumes and interfaces until they end, and Terraform waits twenty minutes for a
// subnet that is still in use before it gives up. So a destroy removes leftovers
// before, while and after Terraform works:
//
//	r := leftovers.New(cfg, leftovers.Scope{Environment: …, Cluster: …})
//	err := r.Remove(ctx, report)                // phase clean_up: load balancers, while nothing waits for them yet
//	err = r.RemoveDuring(ctx, report, tf.Apply) // phase destroy: what comes back, and what machines let go
//	err = r.Remove(ctx, report)                 // phase clean_up again: the data, now that the VPC is gone
//	err = r.RemoveParameters(ctx, report)       // what the nodes wrote for each other (vanilla_kubeadm)
//
// The first error ends the destroy. Each call may be repeated, at any time and after
// any failure; none needs the cluster's API server, which may be broken or out of
// reach.
//
// # Errors
//
// What cannot be removed is named in a *RemainingError, each with its reason and
// what can be done, after everything else was removed. Other errors are AWS's
// refusal of a call that lists, or that ctx has ended.
package leftovers
