// Package gateway is the one endpoint URL behind which the simulated AWS
// account answers.
//
// It finds out which service a request is for from the signature's credential
// scope, verifies the signature with the registered keys, refuses in the form
// that the service's protocol has, lets faults act, records the call, and hands
// the request to one of the fakes in this process or else to the emulator.
//
// Paths below /_sim/ are the gateway's own: faults, recorded calls, the end of
// keys and sessions, health, and what Config.Admin adds.
// They are not signed. No bucket can have that name.
package gateway
