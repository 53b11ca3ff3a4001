// Package config is the configuration of cluster-provisioner: one struct, read
// once from the environment.
//
// settings.go lists every variable with its default and what it is for; reading,
// --help and the documentation's table all come from that list. Read reports
// everything that is wrong at once. Secrets are files, or redacted by type.
package config
