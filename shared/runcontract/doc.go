// Package runcontract is what a service hands to a runner and what it gets
// back: names and mount paths, the run spec, progress, result and exit codes.
//
// In: a ConfigMap <kind>-<id> with run.json (Spec) beside the service's rendered
// files, and a credential Secret mounted as files. Out: the outputs Secret
// <kind>-<id>-outputs with progress.json (Progress), result.json (Result) and
// what the run made, such as a kubeconfig; the compact Result also goes to the
// termination message. Services map exit codes and results, nothing else.
//
// The package knows neither Terraform nor Git nor HTTP.
package runcontract
