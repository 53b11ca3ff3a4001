// Package repository reads and writes a branch of somebody's Git repository with
// the git binary, and without a work tree: files are read from and written to
// git's objects, so that no filter, attribute or setting of the repository changes
// a byte of them, and no link in it leads anywhere.
//
// Of a repository only the newest commit is fetched, and of that only what
// gitopsenv reads, where the server can do that. Pushes never force, but for a
// branch of our own (see Remote.Push). What a failure means is told by the types
// in errors.go; all others are *git.Error or our own disk's.
package repository
