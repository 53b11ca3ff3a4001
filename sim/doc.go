// Package sim brings up the whole platform on one Linux machine: a real
// Kubernetes control plane with a node agent that runs pods as processes, an
// AWS gateway, a Git server, auth-service, and the real services and runners.
//
// README.md beside this file lists what each part stands in for.
package sim
