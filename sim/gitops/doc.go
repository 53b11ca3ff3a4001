// Package gitops makes a control plane the target cluster of a GitOps tree.
//
// Workloads gives the configuration that the control plane needs; Start adds a
// node that runs pods, InstallFlux the real source-controller and
// kustomize-controller as processes beside it, and Sync what host-cluster-controller
// would make: the GitRepository and Kustomization that everything else follows
// from.
//
// The Helm repositories of a tree are stood in for by package chartrepository,
// and helm-controller by a loop of ours. It installs the CRDs that known charts
// bring, deploys the real sealed-secrets controller for a release of its chart,
// and marks releases ready, or failed where a test wants that (FailRelease).
//
// What can go wrong on demand: a release fails or hangs; a repository of charts
// has moved (Charts); a second sealed-secrets controller exists
// (InstallSealedSecrets); its certificate has expired (SetControllerArgs); its
// image cannot be pulled (BreakControllerImage); the API server does not reach
// pods (podnetwork.Network.Block); Flux is not there, or was stopped.
package gitops
