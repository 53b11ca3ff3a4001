// Package kube makes the Kubernetes Job of a scaffolding run.
package kube
