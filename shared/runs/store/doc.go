// Package store keeps runs in a database: one table per service, provision_jobs
// or scaffold_jobs, and beside it <table>_logs with the logs of runs that have
// ended. It is the real runs.Store; storetest says how any such store behaves.
//
// A service calls Migrate(ctx, db, table) once at its start and then New(db,
// table). The migrations are templates over the table's name, one folder for each
// dialect with the same version numbers; which were applied is in
// <table>_migrations.
//
// Invariants are the database's too: one live run per environment is a partial
// unique index, statuses and their times are CHECKs, and every change is one
// UPDATE guarded by version and status.
//
// Driver errors are told apart by SQLSTATE and constraint name or by SQLite's
// extended result code. All others come out as runs.ErrDatabase.
package store
