// Package database opens a service's database, SQLite or Postgres, for bun, and
// migrates it with goose under a lock.
//
// SQLite is for one process: a lock file beside the database keeps a second one
// out. It has a writer with one connection, whose transactions take the write
// lock at once, and a pool of readers. Postgres is for any number of processes;
// reader and writer are the same pool there.
//
// Errors: ErrURL, ErrInUse, ErrReadOnly, ErrNewerSchema. No error holds the URL, which may
// hold a password.
//
// What is in the tables is the business of the packages that own them.
package database
