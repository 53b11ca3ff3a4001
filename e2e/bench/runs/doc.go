// Package runs measures what a run costs and how fast it can be stopped, on the
// simulator: the real service, runner and Terraform, with the S3 backend in the
// simulated account. Most runs are of the minimal clusters of minimalprovisioner.
package runs
