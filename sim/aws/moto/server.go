package moto

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/kubeopera/platform/sim/process"
)

// DefaultStartTimeout is how long a server may take until it answers: an
// import of its modules from a cold disk takes several seconds.
const DefaultStartTimeout = 60 * time.Second

// stopTimeout is how long a server may take to end after SIGTERM.
const stopTimeout = 5 * time.Second

// Config says how to run a server.
type Config struct {
	Server       string        // path of moto_server
	LogFile      string        // required: its output, appended
	AccountID    string        // required
	StartTimeout time.Duration // 0: DefaultStartTimeout
	Log          *slog.Logger  // required
}

// Server is a running moto server.
type Server struct {
	url    *url.URL
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	err    error         // set before exited is closed
}

// Start runs a server on a free port and returns when it answers.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = DefaultStartTimeout
	}
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	logFile, err := os.OpenFile(cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open moto's log: %w", err)
	}
	defer func() { _ = logFile.Close() }() // the child has its own descriptor

	imageFile, err := filepath.Abs(cfg.LogFile + ".images.json")
	if err != nil {
		return nil, fmt.Errorf("find the place for images: %w", err)
	}
	if err := writeImages(imageFile); err != nil {
		return nil, err
	}
	cmd := exec.Command(cfg.Server, "-H", "127.0.0.1", "-p", strconv.Itoa(port)) //nolint:noctx // ended by Close, in order, not by a context
	cmd.Dir = filepath.Dir(cfg.LogFile)
	cmd.Env = append(os.Environ(),
		"MOTO_ACCOUNT_ID="+cfg.AccountID,
		// Terraform attaches AWS's own policies to roles, which must exist.
		"MOTO_IAM_LOAD_MANAGED_POLICIES=true",
		"MOTO_AMIS_PATH="+imageFile,
		"PYTHONUNBUFFERED=1",
		// Requests must not leave by a proxy of the environment.
		"NO_PROXY=*", "no_proxy=*",
	)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	// A group of its own: an interrupt at the terminal is for us, who then stop it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	s := &Server{
		url:    &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))},
		cmd:    cmd,
		exited: make(chan struct{}),
	}
	if err := s.spawn(); err != nil {
		return nil, fmt.Errorf("start moto: %w", err)
	}
	if err := s.waitReady(ctx, cfg.StartTimeout); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("%w (its output is in %s)", err, cfg.LogFile)
	}
	cfg.Log.DebugContext(ctx, "moto answers", "url", s.url.String(), "pid", cmd.Process.Pid)
	return s, nil
}

// spawn starts the process from a goroutine that no caller has locked to a
// thread: the parent-death signal comes when the starting thread ends, and such
// a thread ends with its goroutine.
func (s *Server) spawn() error {
	started := make(chan error)
	go func() {
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.err = s.cmd.Wait()
			close(s.exited)
		}
	}()
	return <-started
}

func (s *Server) waitReady(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if answers(ctx, client, s.url.JoinPath("moto-api", "data.json").String()) {
			return nil
		}
		select {
		case <-s.exited:
			return errors.Join(errors.New("moto ended before it answered"), s.err)
		case <-ctx.Done():
			return fmt.Errorf("moto did not answer in time: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func answers(ctx context.Context, client *http.Client, target string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// URL is where the server answers.
func (s *Server) URL() *url.URL { return s.url }

// PID is the server's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done is closed when the process has ended, whoever ended it.
func (s *Server) Done() <-chan struct{} { return s.exited }

// Close ends the server and waits for it.
func (s *Server) Close() error {
	s.signal(syscall.SIGTERM)
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-s.exited:
	case <-timer.C:
		s.signal(syscall.SIGKILL)
		<-s.exited
	}
	return nil
}

// signal reaches the whole group: what is on PATH may be a wrapper.
func (s *Server) signal(sig syscall.Signal) {
	select {
	case <-s.exited: // its group id may belong to somebody else by now
	default:
		_ = syscall.Kill(-s.cmd.Process.Pid, sig)
	}
}
