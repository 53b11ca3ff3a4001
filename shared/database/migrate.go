package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/uptrace/bun"
)

// ErrNewerSchema means that a later release has migrated the database.
var ErrNewerSchema = errors.New("database schema is newer than this program")

// Migrations are numbered SQL files, the same numbers for both dialects.
type Migrations struct {
	Postgres fs.FS
	SQLite   fs.FS
	// VersionTable holds which were applied; one per set of migrations.
	VersionTable string
}

// Migrate applies what is missing. Any number of processes may do so at a time:
// on Postgres one does and the others wait, on SQLite there is only one. A
// database that a later release has migrated is left alone and refused.
func (db *DB) Migrate(ctx context.Context, m Migrations) error {
	conns, done := db.migrationConns()
	defer done()
	provider, err := db.provider(conns, m)
	if err != nil {
		return err
	}
	// Another may be migrating as we look, so look again afterwards.
	if err := checkNotNewer(ctx, provider); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}
	return checkNotNewer(ctx, provider)
}

// SchemaVersion is the number of the newest migration that was applied, by what
// Migrations.VersionTable holds.
func (db *DB) SchemaVersion(ctx context.Context, versionTable string) (int64, error) {
	var version int64
	err := db.reader.NewRaw("SELECT coalesce(max(version_id), 0) FROM ? WHERE is_applied", bun.Ident(versionTable)).Scan(ctx, &version)
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return version, nil
}

// checkNotNewer refuses a database that a later release has migrated.
func checkNotNewer(ctx context.Context, provider *goose.Provider) error {
	has, want, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if has > want {
		return fmt.Errorf("%w: it has version %d, this program knows up to %d; run the release that migrated it, or restore a backup", ErrNewerSchema, has, want)
	}
	return nil
}

// provider is goose over one set of migrations, with nothing global.
func (db *DB) provider(conns *sql.DB, m Migrations) (*goose.Provider, error) {
	dialect, files := goose.DialectSQLite3, m.SQLite
	options := []goose.ProviderOption{
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(m.VersionTable), goose.WithSlog(slog.New(slog.DiscardHandler)),
	}
	if db.dialect == Postgres {
		dialect, files = goose.DialectPostgres, m.Postgres
		// Tries every second for five minutes; goose's default of five seconds
		// would make a rolling start wait in such steps.
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
		if err != nil {
			return nil, fmt.Errorf("migrate database: %w", err)
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(dialect, conns, files, options...)
	if err != nil {
		return nil, fmt.Errorf("migrate database: %w", err)
	}
	return provider, nil
}

// migrationConns are connections without the statement timeout of the pool: a
// migration may take as long as it takes.
func (db *DB) migrationConns() (*sql.DB, func()) {
	if db.dialect == SQLite {
		return db.writer.DB, func() {}
	}
	conns := stdlib.OpenDB(*db.config)
	conns.SetMaxOpenConns(2) // one holds the lock, one works
	return conns, func() { _ = conns.Close() }
}
