// Package runstest has in-memory stand-ins for what the run engine needs: Store
// for the database, Cluster for the namespace where runs live. They are for tests
// of the engine and of the services that use it.
//
// Store passes the same suite as the real store (runs/store/storetest). Cluster
// does what Kubernetes does of its own accord only when a test says so: Start
// makes a pod run, Finish ends it.
package runstest
