// Package reads measures cluster-provisioner by itself: its real binary and a real
// database, before a real API server in which 200 runs are at work. No Terraform
// runs: the test plays node and runners.
package reads
