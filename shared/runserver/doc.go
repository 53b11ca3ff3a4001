// Package runserver is a service of runs put together: the database, the cluster
// where runs live, the run engine, the HTTP server, started and stopped as one;
// and the configuration and the command line that all such services have.
//
// A service embeds Config in a configuration of its own, whose settings begin
// with Settings, and hands Run what is its own: a Service. Program is its command.
package runserver
