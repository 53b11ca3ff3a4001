package store

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/kubeopera/platform/shared/database"
	"github.com/kubeopera/platform/shared/database/pgtest"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/store/storetest"
)

const table = "provision_jobs"

func sqliteURL(t *testing.T) string {
	t.Helper()
	return (&url.URL{Scheme: "sqlite", Path: filepath.Join(t.TempDir(), "runs ?%.db")}).String()
}

func open(t *testing.T, address string) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func migrated(t *testing.T, address string) *database.DB {
	t.Helper()
	db := open(t, address)
	if err := Migrate(t.Context(), db, table); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) runs.Store {
		t.Helper()
		return New(migrated(t, sqliteURL(t)), table)
	})
}

// TestPostgres has all that takes a server, so that one is enough.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for name, test := range map[string]func(t *testing.T, address string){
		"has the schema that SQLite has": sameSchema,
		"is migrated by many at once":    migratedByMany,
		"is refused when newer":          refusesNewer,
		"is upgraded":                    upgrades,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server.Database(t))
		})
	}
	t.Run("stores", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(t *testing.T) runs.Store {
			t.Helper()
			return New(migrated(t, server.Database(t)), table)
		})
	})
}

// TestDatabaseFailure checks that what is wrong with the database itself is told
// apart from what is wrong with a request.
func TestDatabaseFailure(t *testing.T) {
	t.Parallel()
	s := New(open(t, sqliteURL(t)), table) // not migrated
	run := storetest.NewRun(t, "acme")
	_, get := s.Get(t.Context(), run.ID)
	_, list := s.List(t.Context(), runs.Filter{})
	_, update := s.Update(t.Context(), run, nil)
	_, known := s.Known(t.Context(), []runs.ID{run.ID})
	_, log := s.Log(t.Context(), run.ID)
	_, claim := s.Claim(t.Context(), run, 1, run.CreatedAt)
	_, events := s.Events(t.Context(), run.ID)
	_, byKey := s.ByKey(t.Context(), "me", "k")
	_, count := s.Count(t.Context())
	for what, err := range map[string]error{
		"get": get, "list": list, "update": update, "known": known, "log": log, "claim": claim, "events": events, "key": byKey, "count": count,
		"insert": s.Insert(t.Context(), run), "mark": s.MarkCleaned(t.Context(), run.ID),
		"save log": s.SaveLog(t.Context(), run.ID, runs.ArchivedLog{}), "ping": s.Ping(t.Context()),
	} {
		if !errors.Is(err, runs.ErrDatabase) || errors.Is(err, runs.ErrNotFound) || errors.Is(err, runs.ErrConflict) {
			t.Errorf("%s: got %v, want ErrDatabase alone", what, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, run.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: got %v", err)
	}
}

func TestTwoServicesShareADatabase(t *testing.T) {
	t.Parallel()
	db := migrated(t, sqliteURL(t))
	if err := Migrate(t.Context(), db, "scaffold_jobs"); err != nil {
		t.Fatal(err)
	}
	run := storetest.NewRun(t, "acme")
	if err := New(db, table).Insert(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	other := New(db, "scaffold_jobs")
	if _, err := other.Get(t.Context(), run.ID); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if err := other.Insert(t.Context(), run); err != nil {
		t.Errorf("the other service's environment is held: %v", err)
	}
}

func TestMigrateRefusesTableNames(t *testing.T) {
	t.Parallel()
	db := open(t, sqliteURL(t))
	for _, name := range []string{"", "Runs", "runs; DROP TABLE x", "1runs", "runs-2"} {
		if err := Migrate(t.Context(), db, name); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}
