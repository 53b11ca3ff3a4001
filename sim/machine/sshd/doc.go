// Package sshd puts OpenSSH's real server on a machine's disk: host keys, a
// configuration, authorized keys and a unit.
//
// Where the program comes from is tools/openssh's business (Find). Settings are
// those of a fresh cloud image: keys only, root by key only, forwarding allowed.
// They differ where the machine has to: no PAM, for there is none, so that PATH is
// set here; and no penalties for a source, for all clients come from one address.
package sshd
