// Package provision is the domain of cluster-provisioner: what may be asked
// for, and what a run of it is.
//
// Validate turns a request into Inputs, the normalised form that a run keeps,
// or names all that is wrong with it. Service has the use cases: Start, Get,
// List, Logs and Kubeconfig. It speaks to two ports, Runs (the run engine) and
// Credentials (auth-service).
//
// Errors: ErrInvalid (an *InvalidError with every field problem),
// ErrKubeconfigNotReady (a *NotReadyError with the run's status) and
// ErrKubeconfigMissing. Errors of the ports pass through wrapped: runs.ErrNotFound,
// runs.ErrConflict, cloudcred.ErrForbidden and so on.
//
// How a run becomes Kubernetes objects and Terraform files is package launch's
// affair; status codes are package httpapi's.
package provision
