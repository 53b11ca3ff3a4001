// Package runservice has what the domains of all services of runs share: the use
// cases that need no more than the run engine (Cases), the words in which a
// caller speaks to them (Caller, Watch, Page), and the errors that mean the same
// everywhere.
//
// A service's domain embeds Cases, of its own view of a run, and adds what is its
// own: what may be asked for, and what comes of an earlier run. It begins a run
// with Replay first, before any rule is applied, and Begin last.
//
// Errors: ErrInvalid (InvalidError), ErrCredential (CredentialError), ErrNotEnded
// and ErrSucceeded; those of the engine and of cloudcred pass through wrapped.
// Status codes are package runapi's.
package runservice
