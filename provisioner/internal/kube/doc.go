// Package kube makes the Kubernetes objects of a provisioning run.
//
// TerraformJob is a pure function of a Spec: no client, no clock, no error. The
// run engine creates what it returns; what runs inside is package runcontract's
// and the runner's affair.
package kube
