// Package pgtest gives tests a Postgres: the one that TEST_POSTGRES_URL names,
// else a throw-away server from binaries found on this machine, else one in a
// container.
//
// Where there is neither, the test is skipped with the reason, or fails in CI
// (package skip).
package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/kubeopera/platform/shared/skip"
)

// Server is a running Postgres.
type Server struct {
	url string
	own *process // nil: one that TEST_POSTGRES_URL names
}

// Start gives a server that lives as long as tb.
func Start(tb testing.TB) *Server {
	tb.Helper()
	if given, ok := os.LookupEnv("TEST_POSTGRES_URL"); ok && given != "" {
		return &Server{url: given}
	}
	bin, err := binaries()
	if err != nil {
		address, inContainer := container(tb)
		if inContainer != nil {
			skip.Missing(tb, skip.Postgres, fmt.Sprintf("%v, and no container: %v", err, inContainer))
		}
		return &Server{url: address}
	}
	own, err := launch(tb, bin)
	if err != nil {
		skip.Missing(tb, skip.Postgres, err.Error())
	}
	return &Server{url: own.url, own: own}
}

// Restart ends the server at once, as a crash does, and starts it again. What was
// committed stays. It skips the test for a server that is not its own.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if s.own == nil {
		skip.Missing(tb, skip.Postgres, "only a server from this machine's binaries can be restarted")
	}
	s.own.stop()
	if err := s.own.start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// Database makes an empty database that is dropped with tb, and gives its URL.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	s.exec(tb, tb.Context(), "CREATE DATABASE "+name)
	tb.Cleanup(func() { s.exec(tb, context.Background(), "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(s.url)
	if err != nil {
		tb.Fatal("TEST_POSTGRES_URL is no URL")
	}
	u.Path = "/" + name
	return u.String()
}

func (s *Server) exec(tb testing.TB, ctx context.Context, statement string) {
	tb.Helper()
	db, err := sql.Open("pgx", s.url)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// binaries is the directory of the newest Postgres on this machine.
func binaries() (string, error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.SortFunc(dirs, func(a, b string) int { return release(b) - release(a) })
	if onPath, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(onPath); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, dir := range dirs {
		_, noInit := os.Stat(filepath.Join(dir, "initdb"))
		_, noServer := os.Stat(filepath.Join(dir, "postgres"))
		if noInit == nil && noServer == nil {
			return dir, nil
		}
	}
	return "", errors.New("neither TEST_POSTGRES_URL nor initdb and postgres (PATH, /usr/lib/postgresql) found")
}

func release(dir string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	if err != nil {
		return 0
	}
	return n
}

// launch starts a server that listens on a Unix socket in its own directory: no
// port to race for, nobody else on the machine to let in.
func launch(tb testing.TB, bin string) (*process, error) {
	tb.Helper()
	// Not tb.TempDir: a socket's path has 107 bytes at most.
	dir, err := os.MkdirTemp("/tmp", "pgtest-") //nolint:usetesting // the comment above
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr, err := account(dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if out, err := command(tb.Context(), attr, dir, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres",
		"-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	p := &process{
		bin: bin, dir: dir, attr: attr,
		url: "postgres:///postgres?user=postgres&host=" + url.QueryEscape(dir),
	}
	if err := p.start(tb.Context()); err != nil {
		return nil, err
	}
	tb.Cleanup(p.stop)
	return p, nil
}

// process is a server of our own.
type process struct {
	bin, dir, url string
	attr          *syscall.SysProcAttr

	command *exec.Cmd
	ended   chan struct{}
}

// start returns once the server answers.
func (p *process) start(ctx context.Context) error {
	var log bytes.Buffer
	p.command = command(context.WithoutCancel(ctx), p.attr, p.dir, filepath.Join(p.bin, "postgres"), "-D", filepath.Join(p.dir, "data"), "-k", p.dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off")
	p.command.Stdout, p.command.Stderr = &log, &log
	if err := p.command.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	p.ended = make(chan struct{})
	go func() {
		_ = p.command.Wait() // how it ended is in its log
		close(p.ended)
	}()
	if err := await(ctx, p.url, p.ended); err != nil {
		p.stop()
		return fmt.Errorf("%w: %s", err, log.String())
	}
	return nil
}

func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGQUIT) // immediate shutdown
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// await waits until the server answers.
func await(ctx context.Context, address string, ended <-chan struct{}) error {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("postgres ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-tick.C:
		}
	}
}

// account is who the server runs as: Postgres refuses root, so root lends the
// directory to another account.
func account(dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() != 0 {
		return attr, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		who, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(who.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(who.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			return nil, err
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return attr, nil
	}
	return nil, errors.New("postgres refuses root, and there is no account postgres or nobody to run it as")
}

// command runs in dir with nothing of our environment but PATH, so that no PG*
// variable interferes.
func command(ctx context.Context, attr *syscall.SysProcAttr, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	path, _ := os.LookupEnv("PATH")
	cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, attr, []string{"PATH=" + path, "LC_ALL=C"}
	return cmd
}
