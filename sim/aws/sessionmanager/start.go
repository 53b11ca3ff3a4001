package sessionmanager

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

type startInput struct {
	Target       *string
	DocumentName string
	Parameters   map[string][]string
	Reason       string
}

type tokenOutput struct {
	SessionID  string `json:"SessionId"`
	TokenValue string `json:",omitempty"` // absent: the session is over
	StreamURL  string `json:"StreamUrl,omitempty"`
}

const (
	maxTarget = 400
	maxReason = 256
)

func (s *Service) startSession(c call, in startInput) (any, error) {
	if in.Target == nil {
		return nil, invalid("1 validation error detected: Value null at 'target' failed to satisfy constraint: Member must not be null")
	}
	target := *in.Target
	if target == "" || len(target) > maxTarget {
		return nil, invalid("1 validation error detected: Value at 'target' failed to satisfy constraint: Member must have length between 1 and %d", maxTarget)
	}
	if len(in.Reason) > maxReason {
		return nil, invalid("1 validation error detected: Value at 'reason' failed to satisfy constraint: Member must have length less than or equal to %d", maxReason)
	}
	for _, resource := range []string{s.instanceARN(c.caller.Region, target), fmt.Sprintf("arn:aws:ssm:%s::document/%s", c.caller.Region, in.DocumentName)} {
		if err := s.authorize(c.Context(), c.caller, "ssm:StartSession", resource); err != nil {
			return nil, err
		}
	}
	props, port, err := properties(in.DocumentName, in.Parameters)
	if err != nil {
		return nil, err
	}
	session, err := s.newSession(c, in, props, port)
	if err != nil {
		return nil, err
	}
	session.mu.Lock()
	defer session.mu.Unlock()
	return tokenOutput{SessionID: session.id, TokenValue: session.token, StreamURL: c.streamURL(session.id)}, nil
}

func (s *Service) instanceARN(region, id string) string {
	if strings.HasPrefix(id, "mi-") {
		return fmt.Sprintf("arn:aws:ssm:%s:%s:managed-instance/%s", region, s.cfg.AccountID, id)
	}
	return fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", region, s.cfg.AccountID, id)
}

// streamURL is at the address at which the call came in.
func (c call) streamURL(sessionID string) string {
	scheme := "ws"
	if c.TLS != nil {
		scheme = "wss"
	}
	return (&url.URL{
		Scheme: scheme, Host: c.Host, Path: ChannelPath + sessionID, RawQuery: "role=publish_subscribe&cell-number=AAEAAQ",
	}).String()
}

func (s *Service) newSession(c call, in startInput, props map[string]string, port int) (*session, error) {
	target := *in.Target
	offline := len(s.faults.match(event{point: atStart, target: target})) > 0
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.machines[target]
	if m == nil || m.Region != "" && m.Region != c.caller.Region || m.offline || offline || s.closed {
		return nil, failure("TargetNotConnected", "%s is not connected.", target)
	}
	active := 0
	for _, other := range s.sessions {
		if other.owner == c.caller.PrincipalARN && !other.over() {
			active++
		}
	}
	if s.cfg.MaxSessions > 0 && active >= s.cfg.MaxSessions {
		return nil, failure("ThrottlingException", "Rate exceeded: %d sessions are active", active)
	}
	session := &session{
		service: s, id: newSessionID(c.caller.PrincipalARN), region: c.caller.Region, owner: c.caller.PrincipalARN,
		document: in.DocumentName, reason: in.Reason, props: props, port: port, machine: m.Machine, started: time.Now(),
		receiver: newReceiver(), token: newToken(), status: statusConnecting,
	}
	session.sender = newSender(session.transmit)
	session.idle = time.AfterFunc(s.cfg.IdleTimeout, func() {
		session.end(statusTerminated, "Your session timed out due to inactivity.")
	})
	s.sessions[session.id] = session
	s.order = append(s.order, session.id)
	s.forget()
	return session, nil
}

// history is how many sessions are kept.
const history = 10_000

// forget takes away the oldest session that is over when there are many.
func (s *Service) forget() {
	if len(s.order) <= history {
		return
	}
	for i, id := range s.order {
		if s.sessions[id].over() {
			delete(s.sessions, id)
			s.order = append(s.order[:i:i], s.order[i+1:]...)
			return
		}
	}
}

func (s *session) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.over()
}

var notInID = regexp.MustCompile(`[^\w.@-]`)

// newSessionID begins with the name of the user or of the role's session.
func newSessionID(principal string) string {
	name := notInID.ReplaceAllString(principal[strings.LastIndexByte(principal, '/')+1:], "")
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return name + "-" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

type sessionInput struct {
	SessionID *string `json:"SessionId"`
}

// named finds the session that a call is about, if the caller may do it.
func (s *Service) named(c call, in sessionInput, action string) (*session, error) {
	if in.SessionID == nil || *in.SessionID == "" {
		return nil, invalid("1 validation error detected: Value null at 'sessionId' failed to satisfy constraint: Member must not be null")
	}
	resource := fmt.Sprintf("arn:aws:ssm:%s:%s:session/%s", c.caller.Region, s.cfg.AccountID, *in.SessionID)
	if err := s.authorize(c.Context(), c.caller, action, resource); err != nil {
		return nil, err
	}
	session := s.session(*in.SessionID)
	if session == nil || session.region != c.caller.Region {
		return nil, failure("DoesNotExistException", "Session %s does not exist.", *in.SessionID)
	}
	return session, nil
}

func (s *Service) resumeSession(c call, in sessionInput) (any, error) {
	session, err := s.named(c, in, "ssm:ResumeSession")
	if err != nil {
		return nil, err
	}
	if len(s.faults.match(event{point: atResume, session: session.id, target: session.machine.InstanceID})) > 0 {
		return nil, fmt.Errorf("resume session %s: a fault was asked for", session.id)
	}
	token, ok := session.refresh()
	if !ok {
		return tokenOutput{SessionID: session.id}, nil
	}
	return tokenOutput{SessionID: session.id, TokenValue: token, StreamURL: c.streamURL(session.id)}, nil
}

func (s *Service) terminateSession(c call, in sessionInput) (any, error) {
	session, err := s.named(c, in, "ssm:TerminateSession")
	if err != nil {
		return nil, err
	}
	session.end(statusTerminated, "")
	return tokenOutput{SessionID: session.id}, nil
}
