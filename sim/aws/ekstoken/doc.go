// Package ekstoken is the authentication webhook of EKS: an API server sends
// it the bearer tokens that it does not know, and learns who they stand for.
//
// A token is "k8s-aws-v1." and the base64 of a presigned GetCallerIdentity URL
// that also signs the header x-k8s-aws-id with the cluster's name. AWS's
// authenticator has STS verify it; this one verifies the signature itself, with
// the keys of the simulated account. Which cluster a token is for does not
// stand in it: it is the cluster with whose name the signature fits.
//
// Access policies are an authorizer of their own at EKS. Here each becomes a
// group, which BindPolicies binds to the Kubernetes role that it stands for.
package ekstoken
