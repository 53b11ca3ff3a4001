package store

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"testing/fstest" // its MapFS is the standard library's file system in memory; it pulls in no testing

	"github.com/kubeopera/platform/shared/database"
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
