package sessionmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
	"github.com/kubeopera/platform/sim/aws/ssm"
)

// ChannelPath is the beginning of the paths of data channels.
const ChannelPath = "/v1/data-channel/"

const (
	signingName = "ssmmessages"
	// minClientVersion is the first version of the plugin that signs the upgrade
	// request; AWS says that older ones will be refused.
	minClientVersion = "1.2.764.0"
	openPatience     = 15 * time.Second
	maxMessage       = 64 << 10
	minRequestID     = 16
)

// DataChannel answers the requests by which clients open data channels. Their
// signatures have been verified by who calls it.
func (s *Service) DataChannel() http.Handler { return &dataChannel{s} }

type dataChannel struct{ *Service }

// Operation names the request in records of calls and for faults.
func (*dataChannel) Operation(*http.Request) string { return "OpenDataChannel" }

// Refused notes a request whose signature was not accepted.
func (d *dataChannel) Refused(r *http.Request, err error) {
	d.violated(sessionID(r), RuleSignature, err.Error())
}

func sessionID(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, ChannelPath) }

func (d *dataChannel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, err := d.admit(r)
	if err != nil {
		apiErr, ok := errors.AsType[*protocol.Error](err)
		if !ok {
			apiErr = &protocol.Error{Status: http.StatusInternalServerError, Code: "InternalServerError", Message: err.Error()}
		}
		protocol.WriteError(w, r, protocol.RESTJSON, w.Header().Get("X-Amzn-Requestid"), apiErr)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer func() { _ = conn.CloseNow() }() // mostly closed already
	conn.SetReadLimit(maxMessage)
	l, err := d.open(r.Context(), s, conn)
	if err != nil {
		_ = conn.Close(websocket.StatusPolicyViolation, err.Error()) // the client may be gone
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.write(context.WithoutCancel(r.Context()))
	}()
	lifetime := time.AfterFunc(d.cfg.LinkLifetime, func() { l.close(farewell{code: websocket.StatusNormalClosure, reason: "Bye"}) })
	defer lifetime.Stop()
	s.read(context.WithoutCancel(r.Context()), l)
	s.detach(l)
	<-written
}

// admit says whose channel a request is for, and whether it may be opened.
func (d *dataChannel) admit(r *http.Request) (*session, error) {
	caller := keyring.CallerFrom(r.Context())
	refuse := func(status int, code, format string, args ...any) error {
		return &protocol.Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
	}
	if caller.Service != signingName {
		d.violated(sessionID(r), RuleSignature, "signed for service "+caller.Service)
		return nil, refuse(http.StatusForbidden, "InvalidSignatureException", "Credential should be scoped to correct service: '%s'.", signingName)
	}
	if role := r.URL.Query().Get("role"); role != "publish_subscribe" {
		return nil, refuse(http.StatusBadRequest, "ValidationException", "role %q is not publish_subscribe", role)
	}
	s := d.session(sessionID(r))
	if s == nil || s.region != caller.Region {
		return nil, refuse(http.StatusNotFound, "ResourceNotFoundException", "Session %s does not exist", sessionID(r))
	}
	if err := d.authorize(r.Context(), caller, "ssmmessages:OpenDataChannel", s.arn()); err != nil {
		e, _ := errors.AsType[*protocol.Error](err)
		if e == nil {
			return nil, err
		}
		return nil, refuse(http.StatusForbidden, e.Code, "%s", e.Message)
	}
	if info := s.info(); status(info.Status).over() {
		return nil, refuse(http.StatusGone, "SessionTerminatedException", "Session %s is already terminated", s.id)
	}
	if len(d.faults.match(event{point: atOpen, session: s.id, target: s.machine.InstanceID})) > 0 {
		return nil, refuse(http.StatusInternalServerError, "InternalServerError", "Internal server error")
	}
	return s, nil
}

// open reads the first message and makes the websocket the session's link. Errors
// are what the client is told; its token is not in them.
func (d *dataChannel) open(ctx context.Context, s *session, conn *websocket.Conn) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	kind, data, err := conn.Read(ctx)
	if err != nil {
		return nil, errors.New("no message has opened the channel")
	}
	var m openMessage
	if kind != websocket.MessageText {
		err = errors.New("the first message is not text")
	} else if json.Unmarshal(data, &m) != nil {
		err = errors.New("the first message is no JSON object")
	} else {
		err = m.check()
	}
	if err != nil {
		d.violated(s.id, RuleOpen, err.Error())
		return nil, err
	}
	if !atLeast(m.ClientVersion, minClientVersion) {
		err := fmt.Errorf("client version %.20q is older than %s, which is required", m.ClientVersion, minClientVersion)
		d.violated(s.id, RuleVersion, err.Error())
		return nil, err
	}
	l, ok := s.attach(m.TokenValue, conn)
	if !ok {
		err := errors.New("the token is not valid, or was used before")
		d.violated(s.id, RuleToken, err.Error())
		return nil, err
	}
	return l, nil
}

func (m openMessage) check() error {
	switch {
	case m.MessageSchemaVersion != "1.0":
		return fmt.Errorf("MessageSchemaVersion is %.20q", m.MessageSchemaVersion)
	case len(m.RequestID) < minRequestID:
		return errors.New("RequestId has less than 16 characters")
	case m.TokenValue == "" || m.ClientID == "" || m.ClientVersion == "":
		return errors.New("TokenValue, ClientId and ClientVersion are required")
	}
	return nil
}

// read takes what the client sends until the link or the session is over.
func (s *session) read(ctx context.Context, l *link) {
	for {
		kind, data, err := l.conn.Read(ctx)
		if err != nil {
			return
		}
		if info := s.info(); status(info.Status).over() {
			continue // what was on the way
		}
		f, err := frame.Parse(data)
		rule, detail := RuleFrame, ""
		switch {
		case kind != websocket.MessageBinary:
			detail = "a text message after the first one"
		case errors.Is(err, frame.ErrDigest):
			rule, detail = RuleDigest, err.Error()
		case err != nil:
			detail = err.Error()
		default:
			rule, detail = s.broken(l, f)
		}
		if detail != "" {
			s.violate(rule, detail)
			continue
		}
		s.pass(l, ToAgent, f, s.receive)
	}
}

func (s *session) arn() string {
	return fmt.Sprintf("arn:aws:ssm:%s:%s:session/%s", s.region, s.service.cfg.AccountID, s.id)
}

// authorize asks whether a caller may do something to a resource.
func (s *Service) authorize(ctx context.Context, caller keyring.Caller, action, resource string) error {
	if s.cfg.Authorizer == nil {
		return nil
	}
	allowed, err := s.cfg.Authorizer.Authorize(ctx, ssm.Access{PrincipalARN: caller.PrincipalARN, Action: action, Resource: resource})
	if err != nil {
		return fmt.Errorf("authorize %s: %w", action, err)
	}
	if !allowed {
		return failure("AccessDeniedException", "User: %s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %s action",
			caller.PrincipalARN, action, resource, action)
	}
	return nil
}
