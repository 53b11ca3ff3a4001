package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/database"
	"github.com/kubeopera/platform/shared/runs"
)

func TestBothDialectsHaveTheSameMigrations(t *testing.T) {
	t.Parallel()
	var names [2][]string
	for i, dialect := range []database.Dialect{database.Postgres, database.SQLite} {
		folder, err := files(dialect, "t")
		if err != nil {
			t.Fatal(err)
		}
		if names[i], err = fs.Glob(folder, "*"); err != nil {
			t.Fatal(err)
		}
	}
	if len(names[0]) == 0 {
		t.Fatal("no migrations")
	}
	if diff := cmp.Diff(names[0], names[1]); diff != "" {
		t.Errorf("postgres and sqlite differ (-postgres +sqlite):\n%s", diff)
	}
}

// sameSchema compares what the databases say of the tables after all migrations.
func sameSchema(t *testing.T, address string) { //nolint:thelper // a test of its own, run by TestPostgres
	postgres, sqlite := open(t, address), open(t, sqliteURL(t))
	for _, db := range []*database.DB{postgres, sqlite} {
		if err := Migrate(t.Context(), db, "runs"); err != nil {
			t.Fatal(err)
		}
	}
	for _, tbl := range []string{"runs", "runs_events", "runs_logs"} {
		want := columns(t, postgres, fmt.Sprintf(`SELECT column_name || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END
			FROM information_schema.columns WHERE table_name = '%s'`, tbl))
		got := columns(t, sqlite, fmt.Sprintf(`SELECT name || CASE "notnull" WHEN 1 THEN ' not null' ELSE '' END FROM pragma_table_info('%s')`, tbl))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("columns of %s (-postgres +sqlite):\n%s", tbl, diff)
		}
		want = columns(t, postgres, fmt.Sprintf(`SELECT indexname FROM pg_indexes WHERE tablename = '%s' AND indexname NOT LIKE '%%_pkey'`, tbl))
		got = columns(t, sqlite, fmt.Sprintf(`SELECT name FROM pragma_index_list('%s') WHERE name NOT LIKE 'sqlite_%%'`, tbl))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("indexes of %s (-postgres +sqlite):\n%s", tbl, diff)
		}
	}
}

func columns(t *testing.T, db *database.DB, query string) []string {
	t.Helper()
	var names []string
	if err := db.Reader().NewRaw(query).Scan(t.Context(), &names); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func migratedByMany(t *testing.T, address string) { //nolint:thelper // a test of its own, run by TestPostgres
	const n = 8
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		db := open(t, address)
		group.Go(func() { errs[i] = Migrate(t.Context(), db, "runs") })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestMigrateAgainChangesNothing(t *testing.T) {
	t.Parallel()
	db := open(t, sqliteURL(t))
	for range 3 {
		if err := Migrate(t.Context(), db, "runs"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMigrateRefusesANewerDatabase(t *testing.T) {
	t.Parallel()
	refusesNewer(t, sqliteURL(t))
}

func refusesNewer(t *testing.T, address string) { //nolint:thelper // a test of its own, run by TestPostgres as well
	db := open(t, address)
	if err := Migrate(t.Context(), db, "runs"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Writer().NewRaw("INSERT INTO runs_migrations (version_id, is_applied) VALUES (9999, ?)", true).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := Migrate(t.Context(), db, "runs")
	if !errors.Is(err, database.ErrNewerSchema) || !strings.Contains(err.Error(), "version 9999") {
		t.Errorf("got %v, want ErrNewerSchema with the version", err)
	}
}

// TestUpgrade migrates a database that the first release has made and used.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	upgrades(t, sqliteURL(t))
}

func upgrades(t *testing.T, address string) { //nolint:thelper // a test of its own, run by TestPostgres as well
	db := open(t, address)
	first := database.Migrations{VersionTable: "runs_migrations"}
	for dialect, into := range map[database.Dialect]*fs.FS{database.Postgres: &first.Postgres, database.SQLite: &first.SQLite} {
		all, err := files(dialect, "runs")
		if err != nil {
			t.Fatal(err)
		}
		data, err := fs.ReadFile(all, "00001_runs.sql")
		if err != nil {
			t.Fatal(err)
		}
		*into = fstest.MapFS{"00001_runs.sql": &fstest.MapFile{Data: data}}
	}
	if err := db.Migrate(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	const insert = `INSERT INTO runs (id, operation, name, environment, inputs, created_at, status, phase, message, error_code,
		progress_done, progress_total, progress_current, started_at, updated_at, version, cleaned)
		VALUES (?, 'apply', ?, ?, '{}', ?, ?, 'apply', 'm', '', 1, 2, '', ?, ?, 3, ?)`
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for id, status := range map[string]string{"running": "running", "queued": "queued"} {
		var started any
		if status == "running" {
			started = at
		}
		if _, err := db.Writer().NewRaw(insert, id, id, id, at, status, started, at, false).Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s := New(db, "runs")
	if err := s.Ping(t.Context()); !errors.Is(err, runs.ErrDatabase) || !strings.Contains(err.Error(), "version 1") {
		t.Errorf("ping of an old schema: %v", err)
	}
	if err := Migrate(t.Context(), db, "runs"); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	if _, err := db.Writer().NewRaw("INSERT INTO runs_migrations (version_id, is_applied) VALUES (9999, ?)", true).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if version, err := CheckSchema(t.Context(), db, "runs"); err != nil || version != 9999 {
		t.Errorf("while a later release takes over: version %d, %v", version, err)
	}
	running, err := s.Get(t.Context(), "running")
	if err != nil || !running.ClaimedAt.Equal(at) {
		t.Errorf("a run at work holds no slot: %+v, %v", running, err)
	}
	queued, err := s.Get(t.Context(), "queued")
	if err != nil || !queued.ClaimedAt.IsZero() {
		t.Errorf("a queued run holds a slot: %+v, %v", queued, err)
	}
	if _, err := s.Claim(t.Context(), queued, 1, at); !errors.Is(err, runs.ErrNoSlot) {
		t.Errorf("got %v, want ErrNoSlot", err)
	}
}
