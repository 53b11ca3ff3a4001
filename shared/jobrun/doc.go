// Package jobrun is the namespace where runs live, seen through client-go: one
// Kubernetes Job per run, its ConfigMap, credential Secret and outputs Secret. It
// is the real runs.Cluster.
//
// All names and labels follow from the run's id, so that doing anything again
// finds what was done before; what carries such a name but not the run's label is
// somebody else's and is never touched.
//
// Run keeps caches of Jobs and pods. While they are not filled, or if Run is not
// running, everything is asked of the API server. Secrets are never cached: the
// service may not watch them.
//
// It needs of the namespace: jobs get, list, watch, create, delete; pods get, list,
// watch, delete; pods/log get; secrets and configmaps get, list, create, update, delete;
// events get, list.
//
// Errors match runs.ErrKubernetes and wrap what the API server said; a refused
// launch also matches runs.ErrWait, ErrRefused or ErrGiveUp.
package jobrun
