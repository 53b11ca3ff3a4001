// Package runs is the run engine of both services.
package runs
