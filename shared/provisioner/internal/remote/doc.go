// Package remote runs scripts on hosts over SSH.
//
// A Host is a connection that mends itself: Connect makes it, and whatever finds
// it broken makes it again by Config.Dial, with back-off. Only what may pass by
// itself is tried again (UnreachableError at the end of it); a refused login
// (AuthError), a wrong host key (HostKeyError) and a user who may not become
// root (PrivilegeError) are errors at once and say what to do.
//
// Run executes a script so that it does not depend on the connection. One
// program (session.sh), sent on the standard input of `sh`, begins the run or
// finds the one that goes on, and passes on its log from where the client was:
//
//	client                         host
//	start: program, script ──────▶ supervise.bash, in a session of its own
//	       ◀────── mark run …      holds the lock of the step while it lives
//	       ◀────── the log
//	       ◀────── mark end …      once the lock is free
//	delivered ───────────────────▶ the next Run with this ID runs again
//
// All state is in StateDir/<ID>, for root only:
//
//	lock        held by the supervisor
//	claim       run, boot id and process of the supervisor; that there is a run
//	script, stdin, supervise
//	            stdin is removed as soon as it is open, the others at the end
//	group       process group of the script
//	log         what the script printed: its beginning, and its end if it is long
//	result      exit status, reason and length of the log
//	delivered   a client has the result
//
// A run that ended without a result, since the host was rebooted or the
// supervisor killed, is an InterruptedError. What was sent on standard input is
// in no argument, no environment and, once the script has begun, no file.
//
// The host needs a POSIX shell, bash, GNU coreutils, flock and setsid (util-linux,
// 2.34 or later), and, if the user is not root, sudo without a password. The login
// shell may be any that knows single quotes.
//
// Scripts say where they failed by a line `kubeopera: line N: command failed with
// status M`, as an ERR trap prints it; ExitError.Line is the last such N.
package remote
