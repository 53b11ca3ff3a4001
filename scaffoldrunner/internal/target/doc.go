// Package target is the cluster that an environment is for: whether Flux brings
// sealed-secrets up there, its controller's certificate, and the Secrets that are
// live.
//
// Nothing in a kubeconfig is executed or opened: package kubeconfig has checked it,
// and tokens for EKS are signed in this process. What is read of the cluster may be
// anything; Flux's objects are read loosely, since their versions are the
// cluster's own business.
package target
