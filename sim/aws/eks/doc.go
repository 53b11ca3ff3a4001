// Package eks fakes EKS: clusters whose API server is a live one that somebody
// else runs, node groups, add-ons, access entries and policies, pod identity
// associations, updates and tags.
//
// There is no goroutine behind it. What takes time at AWS carries the moment at
// which it will be done, and its status follows from the clock whenever it is
// read. Subnets, launch templates and roles are looked up in the emulator by
// Account, which also makes and removes the cluster's security group there.
//
// Rules that decide whether real Terraform code works are kept: at least two
// subnets in two zones, one update at a time, minor versions one by one, access
// entries only in an authentication mode with the API, no deletion under node
// groups, no ready nodes without a network add-on, no CoreDNS without nodes.
package eks
