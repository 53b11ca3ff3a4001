// Package e2e tests the whole platform on the simulator. The tests speak to
// cluster-provisioner through shared/client only, and look at what it left in
// AWS, in S3 and in Kubernetes.
package e2e
