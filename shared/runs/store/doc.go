// Package store keeps runs in a database: one table per service, provision_jobs
// or scaffold_jobs, and beside it <table>_events with the runs' timelines and
// <table>_logs with the logs of those that have ended. It is the real runs.Store; storetest says how any such store behaves.
//
// A service calls Migrate(ctx, db, table) once at its start and then New(db,
// table). The migrations are templates over the table's name, one folder for each
// dialect with the same version numbers; which were applied is in
// <table>_migrations.
//
// Invariants are the database's too: one live run per environment and one run per
// idempotency key are partial unique indexes, statuses and their times are CHECKs,
// every change is one UPDATE guarded by version and status, and slots are claimed
// one after the other.
//
// Driver errors are told apart by SQLSTATE and constraint name or by SQLite's
// extended result code. All others come out as runs.ErrDatabase.
package store
