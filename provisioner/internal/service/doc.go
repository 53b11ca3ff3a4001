// Package service is cluster-provisioner put together: what it is made of beside
// what every service of runs has (shared/runserver). The command adds flags and a
// log; tests add an environment that is made in seconds.
package service
