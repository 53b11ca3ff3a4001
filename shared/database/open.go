package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// What can be wrong with a database, beside its failing.
var (
	// ErrURL means that the database URL is not understood.
	ErrURL = errors.New("database URL")
	// ErrInUse means that another process uses the SQLite database.
	ErrInUse = errors.New("database is in use")
	// ErrReadOnly means that a Postgres server takes no writes: it is a standby.
	ErrReadOnly = errors.New("database is read-only")
)

// Dialect is a kind of database.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

const (
	// postgresConns bounds the connections of one process; a handful of replicas
	// stays well below Postgres' default of 100.
	postgresConns = 10
	// sqliteReaders bounds the readers; with WAL they never wait for the writer.
	sqliteReaders = 4
	// statementTimeout is the second net below every context, in milliseconds.
	statementTimeout = "30000"
)

// DB is an open database.
type DB struct {
	dialect Dialect
	writer  *bun.DB
	reader  *bun.DB
	config  *pgx.ConnConfig // Postgres only
	lock    *fileLock       // SQLite only
}

// Open opens sqlite:///path, sqlite:relative/path or postgres://… and checks that
// it answers.
func Open(ctx context.Context, rawURL string) (*DB, error) {
	scheme, _, _ := strings.Cut(rawURL, ":")
	switch scheme {
	case "sqlite":
		return openSQLite(ctx, rawURL)
	case "postgres", "postgresql":
		return openPostgres(ctx, rawURL)
	default:
		return nil, fmt.Errorf("%w: it must begin with the scheme sqlite or postgres", ErrURL)
	}
}

// Dialect is the kind of the database.
func (db *DB) Dialect() Dialect { return db.dialect }

// Writer is where changes go, and reads that a change depends on.
func (db *DB) Writer() *bun.DB { return db.writer }

// Reader is where other reads go. It sees all that was committed.
func (db *DB) Reader() *bun.DB { return db.reader }

// CheckWritable says whether the database takes writes: with a full disk, or on a
// standby, reads go on as ever.
func (db *DB) CheckWritable(ctx context.Context) error {
	if db.dialect == Postgres {
		var refuses bool
		if err := db.writer.NewRaw("SELECT current_setting('transaction_read_only')::boolean").Scan(ctx, &refuses); err != nil {
			return fmt.Errorf("ask for writability: %w", err)
		}
		if refuses {
			return ErrReadOnly
		}
		return nil
	}
	// SQLite writes the first page anew, whatever the number was.
	var version int64
	if err := db.writer.NewRaw("PRAGMA user_version").Scan(ctx, &version); err != nil {
		return fmt.Errorf("test write: %w", err)
	}
	if _, err := db.writer.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		return fmt.Errorf("test write: %w", err)
	}
	return nil
}

// Close closes the database and frees it for other processes.
func (db *DB) Close() error {
	err := db.writer.Close()
	if db.reader != db.writer {
		err = errors.Join(err, db.reader.Close())
	}
	if db.lock != nil {
		err = errors.Join(err, db.lock.release())
	}
	return err
}

func openPostgres(ctx context.Context, rawURL string) (*DB, error) {
	config, err := pgx.ParseConfig(rawURL)
	if err != nil {
		// pgx masks a password where it finds one; where parsing fails it may not.
		return nil, fmt.Errorf("%w: it is no valid Postgres URL", ErrURL)
	}
	pool := config.Copy()
	if _, set := pool.RuntimeParams["statement_timeout"]; !set {
		pool.RuntimeParams["statement_timeout"] = statementTimeout
	}
	if pool.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement { // pgx's default
		// bun writes values into its statements, so hardly any comes twice: to prepare
		// each would take a second round trip and fill caches on both sides.
		pool.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	conns := stdlib.OpenDB(*pool)
	conns.SetMaxOpenConns(postgresConns)
	conns.SetMaxIdleConns(postgresConns) // with fewer, a busy service opens and closes the others all the time
	conns.SetConnMaxIdleTime(5 * time.Minute)
	if err := conns.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open Postgres: %w", err), conns.Close())
	}
	db := bun.NewDB(conns, pgdialect.New())
	return &DB{dialect: Postgres, writer: db, reader: db, config: config}, nil
}

func openSQLite(ctx context.Context, rawURL string) (*DB, error) {
	path, err := sqlitePath(rawURL)
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	db, err := openLocked(ctx, path)
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	db.lock = lock
	return db, nil
}

func openLocked(ctx context.Context, path string) (*DB, error) {
	// The driver would make it readable for everybody.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the path is the service's own configuration
	if err != nil {
		return nil, fmt.Errorf("open SQLite database: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("open SQLite database: %w", err)
	}
	writer, err := sql.Open("sqlite", sqliteDSN(path, false))
	if err != nil {
		return nil, fmt.Errorf("open SQLite database: %w", err)
	}
	writer.SetMaxOpenConns(1)
	if err := writer.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open SQLite database %s: %w", path, err), writer.Close())
	}
	reader, err := sql.Open("sqlite", sqliteDSN(path, true))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open SQLite database: %w", err), writer.Close())
	}
	reader.SetMaxOpenConns(sqliteReaders)
	reader.SetMaxIdleConns(sqliteReaders)
	return &DB{
		dialect: SQLite,
		writer:  bun.NewDB(writer, sqlitedialect.New()),
		reader:  bun.NewDB(reader, sqlitedialect.New()),
	}, nil
}

// sqlitePath is the file of a SQLite URL. Parameters are refused: through
// _pragma they could run SQL.
func sqlitePath(rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: it is no valid URL", ErrURL)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("%w: a SQLite URL has a path and nothing else", ErrURL)
	case u.Host != "":
		return "", fmt.Errorf("%w: an absolute SQLite path takes three slashes, as in sqlite:///var/lib/runs.db", ErrURL)
	}
	path := u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", fmt.Errorf("%w: it is no valid URL", ErrURL)
		}
	}
	if path == "" || strings.HasSuffix(path, "/") || strings.HasPrefix(path, ":memory:") {
		return "", fmt.Errorf("%w: a SQLite URL must name a file", ErrURL)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("SQLite path: %w", err)
	}
	return path, nil
}

// sqliteDSN is the driver's name for the file. Writers take the write lock when a
// transaction begins: one that began as a reader could not wait for it later.
func sqliteDSN(path string, readOnly bool) string {
	query := "_txlock=immediate"
	pragmas := []string{"busy_timeout(5000)", "journal_mode(WAL)", "foreign_keys(1)", "synchronous(FULL)"}
	if readOnly {
		query, pragmas = "_txlock=deferred", []string{"busy_timeout(5000)", "query_only(1)"}
	}
	for _, p := range pragmas {
		query += "&_pragma=" + p
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query + "&_time_format=sqlite&_timezone=UTC"
}
