// Package sandbox runs programs in Linux namespaces, so that nothing which the
// simulator starts outlives it and so that a container sees its own file tree.
//
// Enter puts the whole program into a PID and mount namespace (and, for an
// ordinary user, a user namespace in which it is root). When the program is
// killed in any way, the kernel ends everything in the namespace with it.
//
// Container is one process tree inside: its own root, made of a tmpfs and bind
// mounts, its own PID 1, and nothing else of the machine's files.
//
// Both re-execute the running program under another name (argument zero), so a
// program that uses this package calls Enter first thing in main, and a test
// binary first thing in TestMain. It needs Linux 5.12 or newer.
//
// The package leaves network, users and resource limits as they are.
package sandbox
