// Package scaffold is the domain of gitops-scaffolder: what may be asked for, and
// what a run of it is.
//
// Validate turns a request into Inputs, the normalised form that a run keeps, or
// names all that is wrong with it. What the request holds in clear, and what it
// names that somebody else keeps, becomes a Bundle: the files of the run's
// credential Secret, the one place where any of it is. Service has the use cases:
// Start, Retry and Diff, beside runservice.Cases. It speaks to four ports: the run
// engine, auth-service (AWS and Git credentials), cluster-provisioner (Clusters),
// and what the platform itself has (Platform).
//
// Errors: those of runservice; ClusterError, SecretsRequiredError and the rest of errors.go;
// those of the ports pass through wrapped.
//
// How a run becomes Kubernetes objects is package launch's affair; status codes
// are package httpapi's.
package scaffold
