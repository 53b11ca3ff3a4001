// Package bootstrap follows the nodes of a kubeadm cluster while they set
// themselves up: the control planes, until the cluster is there, and the workers for
// as long as that takes.
//
// Nobody can reach the nodes from outside, so they report by parameters in AWS
// SSM, which Terraform creates with the value PENDING. Below the cluster's prefix:
//
//	cluster_state                        PENDING | INIT:<instance>:<epoch> | READY:<cluster uid>:<CA hash>
//	control_plane_joined/<i>             PENDING | JOINING:<instance>:<epoch> | JOINED:<instance>:<epoch> | FAILED:<instance>:<epoch>:<reason>
//	bootstrap_status/control-plane-<i>   PENDING | <RUNNING, DONE or FAILED>|<phase>|<instance>|<epoch>|<message>
//	bootstrap_status/worker-<instance>   the same, without PENDING: workers make it
//	admin_kubeconfig                     PENDING | base64 of the kubeconfig
//
// Read turns values into a Cluster: what is known of it, and of each node. It is
// pure. Watch reads the parameters again and again until the cluster is as it
// should be, a node gives up, or time is up. The join token and the certificate
// key are there as well and are never asked for.
//
// What nodes write is data from outside: it is bounded, printable, and stripped
// of what looks like a secret before anybody sees it.
package bootstrap
