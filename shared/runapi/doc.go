// Package runapi is the HTTP of runs, on top of package httpapi: the operations
// that every service of runs has, over its runservice.Cases, what is needed to
// add the service's own, and the table that maps the errors which all of them
// share to problems.
//
// A service says with a Resource what its runs are called, registers with it what
// all have, and adds its own operations with Operation, Accept and Caller. Its
// function for httpapi.Config.Problems looks its own errors up first, then the
// Resource's.
package runapi
