// Package deploy holds the manifests with which cluster-provisioner is deployed,
// for tools that install them and for the tests that check them.
//
// People use them through kustomize: kubectl apply -k provisioner/deploy.
package deploy

import "embed"

// Manifests are the YAML files.
//
//go:embed *.yaml
var Manifests embed.FS
