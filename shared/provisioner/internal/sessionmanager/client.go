package sessionmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"
)

// document gives a port session with one raw stream of bytes.
const document = "AWS-StartSSHSession"

// terminateTimeout bounds the last call of a session.
const terminateTimeout = 5 * time.Second

// API is what is needed of Systems Manager; *ssm.Client has it.
type API interface {
	StartSession(context.Context, *ssm.StartSessionInput, ...func(*ssm.Options)) (*ssm.StartSessionOutput, error)
	ResumeSession(context.Context, *ssm.ResumeSessionInput, ...func(*ssm.Options)) (*ssm.ResumeSessionOutput, error)
	TerminateSession(context.Context, *ssm.TerminateSessionInput, ...func(*ssm.Options)) (*ssm.TerminateSessionOutput, error)
	DescribeInstanceInformation(context.Context, *ssm.DescribeInstanceInformationInput, ...func(*ssm.Options)) (*ssm.DescribeInstanceInformationOutput, error)
}

// Config is what a Client needs. API, Region and Credentials are required.
type Config struct {
	API         API
	Region      string
	Credentials aws.CredentialsProvider // to sign the websocket's upgrade request
	HTTPClient  *http.Client            // for websockets; nil: http.DefaultClient
	AllowClear  bool                    // data channels may be ws://, as an endpoint of one's own may give
	Log         *slog.Logger            // nil: no log

	IdleTimeout time.Duration // ends a session in which no data moves; 0: none
	MaxDuration time.Duration // ends any session; 0: none

	StartTimeout   time.Duration // for Dial, 0: 60 s
	ConnectTimeout time.Duration // for one attempt to resume and reconnect, 0: 20 s
	ResumeTimeout  time.Duration // for all attempts in a row, 0: 5 min
	PingInterval   time.Duration // 0: 30 s
	LingerTimeout  time.Duration // for Close to deliver what is left while nothing moves, 0: 3 s
	MaxLinger      time.Duration // for Close to deliver what is left, 0: 30 s
	OnlineTimeout  time.Duration // for WaitOnline, 0: 5 min
}

// Client starts sessions. Its methods may be called concurrently.
type Client struct {
	config Config

	dialing sync.WaitGroup

	mu     sync.Mutex
	closed bool
	dials  map[*context.CancelCauseFunc]bool // of those that go on
	conns  map[*Conn]bool                    // that have not been closed
}

// New makes a Client.
func New(config Config) (*Client, error) {
	switch {
	case config.API == nil:
		return nil, errors.New("session manager: no API")
	case config.Region == "":
		return nil, errors.New("session manager: no region; set one, or AWS_REGION")
	case config.Credentials == nil:
		return nil, errors.New("session manager: no credentials")
	}
	config.HTTPClient = cmp.Or(config.HTTPClient, http.DefaultClient)
	config.Log = cmp.Or(config.Log, slog.New(slog.DiscardHandler))
	config.StartTimeout = cmp.Or(config.StartTimeout, time.Minute)
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, 20*time.Second)
	config.ResumeTimeout = cmp.Or(config.ResumeTimeout, 5*time.Minute)
	config.PingInterval = cmp.Or(config.PingInterval, 30*time.Second)
	config.LingerTimeout = cmp.Or(config.LingerTimeout, 3*time.Second)
	config.MaxLinger = cmp.Or(config.MaxLinger, 30*time.Second)
	config.OnlineTimeout = cmp.Or(config.OnlineTimeout, 5*time.Minute)
	return &Client{config: config, conns: map[*Conn]bool{}, dials: map[*context.CancelCauseFunc]bool{}}, nil
}

// Dial starts a session with a port of an instance and returns when data may
// flow. The end of ctx later does not matter.
func (c *Client) Dial(ctx context.Context, target string, port int) (*Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.config.StartTimeout,
		fmt.Errorf("no session within %v", c.config.StartTimeout))
	defer cancel()
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	conn, token, err := c.start(ctx, target, port)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	conn.cancel = cancel
	go conn.run(life, token)
	select {
	case <-conn.ready:
	case <-conn.done:
	case <-ctx.Done():
		err := fmt.Errorf("connect to port %d of %s: %w", port, target, context.Cause(ctx))
		conn.mu.Lock()
		if conn.trouble != nil {
			err = fmt.Errorf("%w: %w", err, conn.trouble)
		}
		conn.failLocked(err)
		conn.mu.Unlock()
	}
	if err := conn.failure(); err != nil {
		<-conn.done
		if conn.terminateErr != nil {
			err = errors.Join(err, conn.terminateErr)
		}
		return nil, err
	}
	c.mu.Lock()
	c.conns[conn] = true
	c.mu.Unlock()
	return conn, nil
}

// begin makes a context that Close ends.
func (c *Client) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, net.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.dials[&cancel] = true
	c.dialing.Add(1)
	return ctx, func() {
		c.mu.Lock()
		delete(c.dials, &cancel)
		c.mu.Unlock()
		cancel(nil)
		c.dialing.Done()
	}, nil
}

func (c *Client) start(ctx context.Context, target string, port int) (conn *Conn, token string, err error) {
	started, err := c.config.API.StartSession(ctx, &ssm.StartSessionInput{
		Target: aws.String(target), DocumentName: aws.String(document),
		Parameters: map[string][]string{"portNumber": {strconv.Itoa(port)}},
	})
	if err != nil {
		if _, ok := errors.AsType[*types.TargetNotConnected](err); ok {
			return nil, "", c.notConnected(ctx, target, err)
		}
		if denied(err) {
			return nil, "", &AccessDeniedError{Target: target, Action: "ssm:StartSession", Err: err}
		}
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, "", fmt.Errorf("start a session with %s: %w", target, err)
	}
	conn = newConn(c, target, port, aws.ToString(started.SessionId), aws.ToString(started.StreamUrl))
	return conn, aws.ToString(started.TokenValue), nil
}

// resume asks for another token; an empty one says that the session is over.
func (c *Client) resume(ctx context.Context, conn *Conn) (token string, err error) {
	resumed, err := c.config.API.ResumeSession(ctx, &ssm.ResumeSessionInput{SessionId: aws.String(conn.session)})
	switch {
	case err == nil && aws.ToString(resumed.TokenValue) != "":
		return *resumed.TokenValue, nil
	case err == nil, gone(err):
		conn.mu.Lock()
		conn.over = true
		conn.mu.Unlock()
		return "", &finalError{&ClosedError{Session: conn.session, Reason: "it is over and cannot be resumed"}}
	case denied(err):
		return "", &finalError{&AccessDeniedError{Target: conn.target, Action: "ssm:ResumeSession", Err: err}}
	}
	return "", fmt.Errorf("resume the session: %w", err)
}

// terminate ends a session even if ctx has ended.
func (c *Client) terminate(ctx context.Context, session string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), terminateTimeout)
	defer cancel()
	_, err := c.config.API.TerminateSession(ctx, &ssm.TerminateSessionInput{SessionId: aws.String(session)})
	if err != nil && !gone(err) {
		return fmt.Errorf("terminate session %s, which lives on until it is idle for long: %w", session, err)
	}
	return nil
}

// forget is called by a Conn that is closed.
func (c *Client) forget(conn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

// Close ends all sessions that have not been closed, and those that Dial is about
// to begin. It waits for them.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	for cancel := range c.dials {
		(*cancel)(net.ErrClosed)
	}
	c.mu.Unlock()
	c.dialing.Wait()
	c.mu.Lock()
	conns := make([]*Conn, 0, len(c.conns))
	for conn := range c.conns {
		conns = append(conns, conn)
	}
	c.mu.Unlock()
	errs := make([]error, len(conns))
	var wait sync.WaitGroup
	for i, conn := range conns {
		wait.Go(func() { errs[i] = conn.Close() })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// denied says that the service knows the caller and refuses.
func denied(err error) bool { return hasCode(err, "AccessDeniedException", "AccessDenied") }

// gone says that the service does not know the session.
func gone(err error) bool { return hasCode(err, "DoesNotExistException") }

// hasCode says that the service answered with one of codes.
func hasCode(err error, codes ...string) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && slices.Contains(codes, api.ErrorCode())
}
