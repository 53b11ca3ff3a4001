// Package crash has the crash matrix of cluster-provisioner: what happens around
// an apply when something is killed, cut or taken away at any moment, and what
// many runs do to each other.
//
// The clusters are the minimal ones of minimalprovisioner: resources that
// Terraform has built in, made by the real service, runner, Terraform and S3
// backend within seconds. `make test` runs a representative part, `make soak` all.
package crash
