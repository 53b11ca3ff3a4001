// Package api holds the wire types of both services: requests, runs with their
// status, phase and progress, and problem details (RFC 9457).
//
// The types carry JSON and documentation tags only. Rules live in the services'
// domain packages; what a status may become lives in shared/runs.
package api
