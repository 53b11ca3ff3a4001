// Pins where the CRD of HelmRelease comes from; nothing is built from it. Not part
// of go.work, and not to be tidied: no package is imported.
module github.com/kubeopera/platform/tools/flux-helm

go 1.26.0

require github.com/fluxcd/helm-controller v1.6.3
