// Package deploy holds the manifests with which gitops-scaffolder is deployed, for
// tools that install them and for the tests that check them.
//
// People use them through kustomize: kubectl apply -k scaffolder/deploy.
package deploy

import "embed"

// Manifests are the YAML files.
//
//go:embed *.yaml
var Manifests embed.FS
