package sessionmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
	"github.com/kubeopera/platform/sim/aws/ssm"
)

// Config is what the fake needs.
type Config struct {
	AccountID   string         // required
	Fallback    http.Handler   // all other operations of Systems Manager; nil: there are none
	Authorizer  ssm.Authorizer // nil: everybody may do everything
	MaxSessions int            // of a caller at a time; 0: no limit
	// Times of AWS, which tests may shorten.
	HandshakeTimeout time.Duration // 0: 15 s
	IdleTimeout      time.Duration // 0: 20 min without data
	LinkLifetime     time.Duration // 0: an hour, then the service closes the websocket
	ResendInterval   time.Duration // 0: 100 ms; how often the agent looks for what to resend
	Log              *slog.Logger  // nil: discarded; never gets a token
}

// Service answers the operations of Session Manager and holds its sessions.
type Service struct {
	cfg        Config
	operations map[string]operation
	faults     Faults
	run        func(func(context.Context)) // in a goroutine that Close waits for
	stop       func()

	mu         sync.Mutex
	closed     bool
	machines   map[string]*registration
	sessions   map[string]*session
	order      []string // of session ids, oldest first
	violations []Violation
}

// operation answers one call with the body given.
type operation func(call, []byte) (any, error)

type call struct {
	*http.Request

	caller keyring.Caller
}

// New returns a fake without machines. Close ends it.
func New(cfg Config) (*Service, error) {
	if cfg.AccountID == "" {
		return nil, errors.New("session manager: account id is required")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&cfg.HandshakeTimeout, 15 * time.Second},
		{&cfg.IdleTimeout, 20 * time.Minute},
		{&cfg.LinkLifetime, time.Hour},
		{&cfg.ResendInterval, 100 * time.Millisecond},
	} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	s := &Service{cfg: cfg, machines: map[string]*registration{}, sessions: map[string]*session{}}
	ctx, cancel := context.WithCancel(context.Background())
	var agents sync.WaitGroup
	s.run = func(f func(context.Context)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			agents.Go(func() { f(ctx) })
		}
	}
	s.stop = func() {
		cancel()
		agents.Wait()
	}
	s.operations = map[string]operation{
		"StartSession":                handle(s.startSession),
		"ResumeSession":               handle(s.resumeSession),
		"TerminateSession":            handle(s.terminateSession),
		"DescribeSessions":            handle(s.describeSessions),
		"DescribeInstanceInformation": handle(s.describeInstanceInformation),
	}
	return s, nil
}

// Close ends all sessions and waits for their agents. The handlers of the links
// end by themselves then.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, session := range s.of("") {
		session.end(statusTerminated, "The service is shutting down.")
	}
	s.stop()
	for _, session := range s.of("") {
		session.mu.Lock()
		l := session.link
		session.mu.Unlock()
		if l != nil {
			l.cut()
		}
	}
}

// Faults is what goes wrong.
func (s *Service) Faults() *Faults { return &s.faults }

// Sessions lists all sessions, those that are over among them, oldest first.
func (s *Service) Sessions() []SessionInfo {
	infos := []SessionInfo{}
	for _, session := range s.of("") {
		infos = append(infos, session.info())
	}
	return infos
}

// Cut breaks the websockets of all sessions with an instance (of all instances if
// the id is empty) and says how many there were.
func (s *Service) Cut(instanceID string) int {
	return s.eachLink(instanceID, (*link).cut)
}

// Bye closes them as the service does about once in an hour.
func (s *Service) Bye(instanceID string) int {
	return s.eachLink(instanceID, func(l *link) { l.close(farewell{code: 1000, reason: "Bye"}) })
}

func (s *Service) eachLink(instanceID string, act func(*link)) int {
	n := 0
	for _, session := range s.of(instanceID) {
		session.mu.Lock()
		l := session.link
		session.mu.Unlock()
		if l != nil {
			act(l)
			n++
		}
	}
	return n
}

// End ends all sessions with an instance; their clients are told the reason.
func (s *Service) End(instanceID, reason string) {
	for _, session := range s.of(instanceID) {
		session.end(statusTerminated, reason)
	}
}

// of lists the sessions with an instance, or all.
func (s *Service) of(instanceID string) []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*session
	for _, id := range s.order {
		if session := s.sessions[id]; instanceID == "" || session.machine.InstanceID == instanceID {
			list = append(list, session)
		}
	}
	return list
}

func (s *Service) session(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// handle gives an operation its input.
func handle[In any](serve func(call, In) (any, error)) operation {
	return func(c call, body []byte) (any, error) {
		var in In
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, failure("SerializationException", "%v", err)
		}
		return serve(c, in)
	}
}

// ServeHTTP answers one call.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := r.Header.Get("X-Amz-Target")
	name := target[strings.LastIndexByte(target, '.')+1:]
	serve, ok := s.operations[name]
	if !ok && s.cfg.Fallback != nil {
		s.cfg.Fallback.ServeHTTP(w, r)
		return
	}
	out, err := any(nil), failure("UnknownOperationException", "the simulator does not have %s", name)
	if ok {
		var body []byte
		if body, err = io.ReadAll(r.Body); err == nil {
			out, err = serve(call{Request: r, caller: keyring.CallerFrom(r.Context())}, body)
		}
	}
	if err != nil {
		apiErr, ok := errors.AsType[*protocol.Error](err)
		if !ok {
			apiErr = &protocol.Error{Status: http.StatusInternalServerError, Code: "InternalServerError", Message: err.Error()}
		}
		protocol.WriteError(w, r, protocol.JSON, w.Header().Get("X-Amzn-Requestid"), apiErr)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(out) // the client is gone: there is nobody to tell
}

// failure is an error of the JSON protocol, in which they all have status 400.
func failure(code, format string, args ...any) error {
	return &protocol.Error{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return failure("ValidationException", format, args...)
}

// timestamp is a time as the JSON protocol has it: seconds since 1970.
type timestamp time.Time

func (t timestamp) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", float64(time.Time(t).UnixMilli())/1000), nil
}
