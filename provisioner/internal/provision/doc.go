// Package provision is the domain of cluster-provisioner: what may be asked
// for, and what a run of it is.
//
// Validate turns a request into Inputs, the normalised form that a run keeps,
// or names all that is wrong with it. Service has the use cases: Start, and what
// comes of an earlier run (Retry, Destroy, Unlock, Cancel); Get, List, Logs, Events
// and Kubeconfig; those that are no different from another service's are
// runservice.Cases'. It speaks to two ports, the run engine and auth-service.
//
// What an environment is, its runs say: the newest apply that may have built
// something, unless a destroy has succeeded since. That decides what may change
// (change.go), what a destroy takes down (again.go), whether a kubeconfig is still
// good (kubeconfig.go), and what the next run is told of locks and states that
// earlier ones left (lookback.go).
//
// Errors: sentinels for what callers branch on, structs where data travels; see
// errors.go. Errors of the ports pass through wrapped: runs.ErrNotFound,
// runs.ErrConflict, cloudcred.ErrForbidden and so on.
//
// How a run becomes Kubernetes objects and Terraform files is package launch's
// affair; status codes are package httpapi's.
package provision
