package database_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kubeopera/platform/shared/database"
	"github.com/kubeopera/platform/shared/database/pgtest"
)

func open(t *testing.T, address string) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestOpenRefusesBadURLs(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, address := range []string{
		"", "runs.db", "mysql://root:" + secret + "@db/runs", "sqlite:", "sqlite://", "sqlite:///", "sqlite://host/path.db",
		"sqlite:///runs.db?_pragma=" + secret, "sqlite:///a%zz", "sqlite::memory:", "sqlite:///tmp/", "postgres://user:" + secret + "@h:port/db",
		"postgres://user:" + secret + "@[::1/db", "postgres://user:" + secret + "@h/db?sslmode=perhaps",
	} {
		db, err := database.Open(t.Context(), address)
		if err == nil {
			t.Errorf("%q was opened: %v", address, db.Close())
			continue
		}
		if !errors.Is(err, database.ErrURL) {
			t.Errorf("%q: got %v, want ErrURL", address, err)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestOpenSaysThatPostgresDoesNotAnswer(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	_, err := database.Open(t.Context(), "postgres://user:"+secret+"@127.0.0.1:1/runs?connect_timeout=2")
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "Postgres") {
		t.Errorf("got %v", err)
	}
}

func TestRelativeSQLitePath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	open(t, "sqlite:my%20runs.db")
	info, err := os.Stat(filepath.Join(dir, "my runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode().Perm())
	}
}

func TestSQLiteServesOneProcess(t *testing.T) {
	// Not in parallel: a test that starts a process has, for the moment between
	// fork and exec, a copy of this lock's descriptor, and with it the lock.
	address := "sqlite://" + filepath.Join(t.TempDir(), "runs.db")
	first, err := database.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = database.Open(t.Context(), address)
	if !errors.Is(err, database.ErrInUse) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("got %v, want ErrInUse with our process id", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, address)
}

// TestSQLiteIsFreeAfterAKill kills the process that holds the database.
func TestSQLiteIsFreeAfterAKill(t *testing.T) {
	t.Parallel()
	const variable = "DATABASE_TEST_HOLD"
	if address, ok := os.LookupEnv(variable); ok {
		if _, err := database.Open(t.Context(), address); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held") //nolint:forbidigo // tells the parent
		select {}
	}
	address := "sqlite://" + filepath.Join(t.TempDir(), "runs.db")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), variable+"="+address)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := database.Open(t.Context(), address); !errors.Is(err, database.ErrInUse) {
		t.Errorf("while it lives: got %v, want ErrInUse", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed
	open(t, address)
}

func TestSQLiteSettings(t *testing.T) {
	t.Parallel()
	db := open(t, "sqlite://"+filepath.Join(t.TempDir(), "runs.db"))
	for pragma, want := range map[string]string{"journal_mode": "wal", "foreign_keys": "1", "synchronous": "2", "busy_timeout": "5000", "query_only": "0"} {
		if got := pragmaOf(t, db.Writer().DB, pragma); got != want {
			t.Errorf("writer: %s is %s, want %s", pragma, got, want)
		}
	}
	if got := pragmaOf(t, db.Reader().DB, "query_only"); got != "1" {
		t.Errorf("reader: query_only is %s", got)
	}
	if _, err := db.Reader().ExecContext(t.Context(), "CREATE TABLE x (y TEXT)"); err == nil {
		t.Error("the reader writes")
	}
	if _, err := db.Writer().ExecContext(t.Context(), "CREATE TABLE x (y TEXT)"); err != nil {
		t.Error(err)
	}
}

func pragmaOf(t *testing.T, db *sql.DB, name string) string {
	t.Helper()
	var value string
	if err := db.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestPostgresSettings(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.Start(t).Database(t))
	if db.Dialect() != database.Postgres || db.Reader() != db.Writer() {
		t.Errorf("dialect %s, reader apart: %t", db.Dialect(), db.Reader() != db.Writer())
	}
	var timeout string
	if err := db.Reader().QueryRowContext(t.Context(), "SHOW statement_timeout").Scan(&timeout); err != nil {
		t.Fatal(err)
	}
	if timeout != "30s" {
		t.Errorf("statement_timeout is %s", timeout)
	}
}

func TestSQLiteThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs.db")
	db := open(t, "sqlite://"+path)
	set := func(statement string) {
		if _, err := db.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	set("PRAGMA user_version = 7")
	before := size(t, path+"-wal")
	if err := db.CheckWritable(t.Context()); err != nil {
		t.Error(err)
	}
	if after := size(t, path+"-wal"); after <= before {
		t.Errorf("the log of writes has %d bytes, as before: nothing was written", after)
	}
	if version := pragmaOf(t, db.Writer().DB, "user_version"); version != "7" {
		t.Errorf("user_version is %s", version)
	}
	set("PRAGMA query_only = 1") // as a full disk, for this connection
	if err := db.CheckWritable(t.Context()); err == nil {
		t.Error("no error where nothing can be written")
	}
	if err := db.Writer().PingContext(t.Context()); err != nil {
		t.Error(err)
	}
	set("PRAGMA query_only = 0")
	if err := db.CheckWritable(t.Context()); err != nil {
		t.Error(err)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestPostgresThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t).Database(t)
	if err := open(t, address).CheckWritable(t.Context()); err != nil {
		t.Error(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("default_transaction_read_only", "on") // as on a standby
	u.RawQuery = query.Encode()
	if err := open(t, u.String()).CheckWritable(t.Context()); !errors.Is(err, database.ErrReadOnly) {
		t.Errorf("got %v, want ErrReadOnly", err)
	}
}

func TestMigrateReportsABadMigration(t *testing.T) {
	t.Parallel()
	db := open(t, "sqlite://"+filepath.Join(t.TempDir(), "runs.db"))
	err := db.Migrate(t.Context(), database.Migrations{
		SQLite:       fstest.MapFS{"00001_bad.sql": {Data: []byte("-- +goose Up\nCREATE TABLE;\n")}},
		VersionTable: "versions",
	})
	if err == nil || !strings.Contains(err.Error(), "version:1") {
		t.Errorf("got %v, want an error that names the version", err)
	}
}
