package store

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"testing/fstest" // its MapFS is the standard library's file system in memory; it pulls in no testing

	"github.com/pressly/goose/v3"

	"github.com/kubeopera/platform/shared/database"
	"github.com/kubeopera/platform/shared/runs"
)

//go:embed migrations
var migrations embed.FS

// tableName is what may stand in the templates.
var tableName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// Migrate makes or updates a service's tables.
func Migrate(ctx context.Context, db *database.DB, table string) error {
	if !tableName.MatchString(table) {
		return fmt.Errorf("migrate runs: %q is no table name", table)
	}
	postgres, err := files(database.Postgres, table)
	if err != nil {
		return err
	}
	sqlite, err := files(database.SQLite, table)
	if err != nil {
		return err
	}
	return db.Migrate(ctx, database.Migrations{Postgres: postgres, SQLite: sqlite, VersionTable: table + "_migrations"})
}

// CheckSchema gives the version of a service's tables, and says if they are those
// of an earlier release. A later one's are no error while the service runs: it is
// being replaced.
func CheckSchema(ctx context.Context, db *database.DB, table string) (version int64, err error) {
	has, err := db.SchemaVersion(ctx, table+"_migrations")
	if err != nil {
		return 0, wrap("check schema", "", err)
	}
	needs, err := newest()
	if err != nil {
		return 0, err
	}
	if has < needs {
		return has, fmt.Errorf("%w: its schema has version %d, this program needs %d; was a backup restored? start the service again to migrate it",
			runs.ErrDatabase, has, needs)
	}
	return has, nil
}

// newest is the version that Migrate brings a database to.
func newest() (int64, error) {
	entries, err := migrations.ReadDir("migrations/" + string(database.SQLite))
	if err != nil {
		return 0, fmt.Errorf("read migrations: %w", err)
	}
	var version int64
	for _, entry := range entries {
		number, err := goose.NumericComponent(entry.Name())
		if err != nil {
			return 0, fmt.Errorf("read migrations: %w", err)
		}
		version = max(version, number)
	}
	return version, nil
}

// files are a dialect's migrations with the table's name filled in.
func files(dialect database.Dialect, table string) (fs.FS, error) {
	dir := "migrations/" + string(dialect)
	entries, err := migrations.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	filled := fstest.MapFS{}
	for _, entry := range entries {
		data, err := migrations.ReadFile(dir + "/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		filled[entry.Name()] = &fstest.MapFile{Data: bytes.ReplaceAll(data, []byte("{{table}}"), []byte(table)), Mode: 0o444}
	}
	return filled, nil
}
