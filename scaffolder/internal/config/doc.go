// Package config is the configuration of gitops-scaffolder: one struct, read once
// from the environment.
//
// settings.go lists the variables that other services do not have, with defaults
// and what they are for; the rest is shared/runserver's. Secrets are files.
package config
