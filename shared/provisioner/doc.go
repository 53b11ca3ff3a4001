// Package provisioner sets machines up over SSH: a kernel, an NVIDIA driver, a
// container runtime, the NVIDIA container toolkit and Kubernetes on one machine, or
// a Kubernetes cluster on many. What is wanted is an Environment of package
// v1alpha1.
//
// # One machine
//
// New connects, Provisioner.Run executes the scripts that the environment implies,
// in the order of their dependencies (DependencyResolver), and Close ends it.
// Dryrun says what Run would do.
//
//	p, err := provisioner.New(logger.NewLogger(), "~/.ssh/id_ed25519", "ubuntu", "192.0.2.10")
//	if err != nil { … }
//	defer p.Close()
//	status, err := p.Run(*env)
//
// # A cluster
//
// ClusterProvisioner.ProvisionCluster prepares all nodes in parallel, initializes
// the first control plane, joins the other control planes one at a time and the
// workers in parallel, sets labels and taints and waits until all nodes are ready.
// A node that fails does not hide what became of the others: see ClusterResult.
// ClusterProvisioner.ResetCluster takes Kubernetes off again.
// ClusterProvisioner.GetClusterHealth and GetClusterHealthFromEnv ask how a cluster
// is.
//
// # Running again
//
// Every script compares what is there with what is wanted and does only the
// difference. It runs detached on its machine, so that no lost connection ends it,
// and has an id made of its text, the environment and the node: who calls again,
// from another process too, waits for a script that still runs and gets its result.
// So a call that was cut off is continued by calling again.
//
// # Connections
//
// A Transport makes the connections that SSH runs over: DirectTransport by TCP,
// SSMTransport by AWS Systems Manager, or one of the caller's. Connection is how to
// log in and which host keys to accept. Without one, the key of a host that is met
// for the first time is remembered, and any other refused later. The user must be
// root or allowed to become root by sudo without a password.
//
// # Errors
//
// An environment that is refused is v1alpha1.FieldErrors. A connection fails by
// AuthError, HostKeyError, PrivilegeError or UnreachableError, a script by
// StepError, TimeoutError or InterruptedError. In a cluster each is in the
// NodeError of its node.
//
// # Secrets
//
// Keys, passphrases, join tokens, certificate keys and the environment values of
// custom templates are masked in all output and errors, and reach scripts on
// standard input only: no argument, no file that stays and no trace has them.
//
// The functions without a context end by themselves after some hours; those with
// one end with it. Scripts that are at work then are stopped on their machines; only
// where that is not possible, as when a machine cannot be reached, they go on.
package provisioner
