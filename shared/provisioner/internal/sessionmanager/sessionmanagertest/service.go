// Package sessionmanagertest is a small Session Manager for tests: the service's
// API, its data channel, and the agent on one instance, which connects to
// whatever a test wants.
//
// It shares no code with package sessionmanager, and does what the documented
// agent does where that is not what the client does: it sends the oldest
// message again by timer only, and acknowledges nothing that its port does not
// take. Faults are lost, repeated, reordered and damaged messages, in both
// directions, and cut websockets.
package sessionmanagertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/coder/websocket"
)

// Faults of a Service. Rates are between 0 and 1, per message and direction.
type Faults struct {
	Lose, Repeat, Reorder, Damage float64
	CutEvery                      int // messages, of both directions; 0: never
}

// Service is the service and the agent. Its fields may be set until the first
// session; those under Lock at any time, while it is locked.
type Service struct {
	Dial      func() (net.Conn, error) // connects the agent to its port
	Handshake string                   // the agent's request; "" for that of a port session, "none" for no request
	Presign   bool                     // data channel URLs are presigned
	Window    int                      // of the agent, in messages; 0: 1000
	Resend    time.Duration            // how often the agent looks whether to send again; 0: 100 ms

	sync.Mutex
	Faults
	StartErr, ResumeErr, TerminateErr, DescribeErr error
	Refuse                                         int                         // HTTP status for upgrade requests; 0: they are served
	Over                                           bool                        // sessions cannot be resumed
	Deaf                                           bool                        // the agent acknowledges nothing
	Instances                                      []types.InstanceInformation // one for each look, the last one for all later ones
	Upgrades                                       []*http.Request
	Sessions                                       []*Session
	Terminated                                     []string // session ids, by TerminateSession

	url     string
	random  *rand.Rand
	running sync.WaitGroup
}

// Serve starts a Service on l; stop ends it and all of its sessions.
func Serve(l net.Listener, s *Service) (stop func()) {
	s.url = l.Addr().String()
	s.random = rand.New(rand.NewPCG(1, 2))
	if s.Handshake == "" {
		s.Handshake = PortSession("")
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	return func() {
		s.Lock()
		for _, session := range s.Sessions {
			session.end()
		}
		s.Unlock()
		_ = server.Close()
		s.running.Wait()
	}
}

// PortSession is the handshake request of a port session of the given type, with
// further actions.
func PortSession(kind string, actions ...string) string {
	all := append([]string{fmt.Sprintf(
		`{"ActionType":"SessionType","ActionParameters":{"SessionType":"Port","Properties":{"portNumber":"22","type":%q}}}`, kind)}, actions...)
	return `{"AgentVersion":"3.3.987.0","RequestedClientActions":[` + strings.Join(all, ",") + `]}`
}

// ServeHTTP upgrades requests for data channels, and answers calls of the API.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, isChannel := strings.CutPrefix(r.URL.Path, "/v1/data-channel/")
	if !isChannel {
		s.call(w, r)
		return
	}
	s.Lock()
	s.Upgrades = append(s.Upgrades, r)
	refuse, session := s.Refuse, s.find(id)
	s.Unlock()
	if refuse != 0 || session == nil {
		http.Error(w, "no", max(refuse, http.StatusForbidden))
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	_, first, err := ws.Read(context.WithoutCancel(r.Context()))
	if err != nil {
		return
	}
	var open struct{ MessageSchemaVersion, RequestID, TokenValue, ClientID, ClientVersion string }
	if json.Unmarshal(first, &open) != nil || open.MessageSchemaVersion != "1.0" || open.RequestID == "" || open.ClientID == "" || open.ClientVersion == "" {
		_ = ws.Close(websocket.StatusPolicyViolation, "open frame")
		return
	}
	session.serve(ws, open.TokenValue)
}

func (s *Service) find(id string) *Session {
	for _, session := range s.Sessions {
		if session.ID == id {
			return session
		}
	}
	return nil
}

// StartSession starts a session of the document AWS-StartSSHSession.
func (s *Service) StartSession(_ context.Context, in *ssm.StartSessionInput, _ ...func(*ssm.Options)) (*ssm.StartSessionOutput, error) {
	s.Lock()
	defer s.Unlock()
	switch {
	case s.StartErr != nil:
		return nil, s.StartErr
	case aws.ToString(in.DocumentName) != "AWS-StartSSHSession" || len(in.Parameters["portNumber"]) != 1:
		return nil, errors.New("not a session for SSH")
	}
	session := newSession(s, fmt.Sprintf("%s-%d", aws.ToString(in.Target), len(s.Sessions)))
	s.Sessions = append(s.Sessions, session)
	url := "ws://" + s.url + "/v1/data-channel/" + session.ID + "?role=publish_subscribe"
	if s.Presign {
		url += "&X-Amz-Signature=abc"
	}
	return &ssm.StartSessionOutput{SessionId: &session.ID, StreamUrl: &url, TokenValue: aws.String(session.newToken())}, nil
}

// ResumeSession gives another token, an empty one if the session is over.
func (s *Service) ResumeSession(_ context.Context, in *ssm.ResumeSessionInput, _ ...func(*ssm.Options)) (*ssm.ResumeSessionOutput, error) {
	s.Lock()
	defer s.Unlock()
	session := s.find(aws.ToString(in.SessionId))
	switch {
	case s.ResumeErr != nil:
		return nil, s.ResumeErr
	case session == nil:
		return nil, &types.DoesNotExistException{}
	case s.Over:
		return &ssm.ResumeSessionOutput{}, nil
	}
	return &ssm.ResumeSessionOutput{SessionId: &session.ID, TokenValue: aws.String(session.newToken())}, nil
}

// TerminateSession ends a session.
func (s *Service) TerminateSession(_ context.Context, in *ssm.TerminateSessionInput, _ ...func(*ssm.Options)) (*ssm.TerminateSessionOutput, error) {
	s.Lock()
	session, err := s.find(aws.ToString(in.SessionId)), s.TerminateErr
	s.Unlock()
	if err != nil {
		return nil, err
	}
	if session == nil {
		return nil, &types.DoesNotExistException{}
	}
	session.finish()
	s.Lock()
	defer s.Unlock()
	s.Terminated = append(s.Terminated, session.ID)
	return &ssm.TerminateSessionOutput{SessionId: in.SessionId}, nil
}

// DescribeInstanceInformation gives the next of Instances; one without an id for
// nothing.
func (s *Service) DescribeInstanceInformation(context.Context, *ssm.DescribeInstanceInformationInput, ...func(*ssm.Options)) (*ssm.DescribeInstanceInformationOutput, error) {
	s.Lock()
	defer s.Unlock()
	out := &ssm.DescribeInstanceInformationOutput{}
	if len(s.Instances) > 0 {
		if s.Instances[0].InstanceId != nil {
			out.InstanceInformationList = s.Instances[:1:1]
		}
		if len(s.Instances) > 1 {
			s.Instances = s.Instances[1:]
		}
	}
	return out, s.DescribeErr
}

// call answers the API over HTTP, in so far as a session needs it.
func (s *Service) call(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var out any
	switch _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); operation {
	case "StartSession":
		in := &ssm.StartSessionInput{}
		_ = json.Unmarshal(body, in)
		out, err = s.StartSession(r.Context(), in)
	case "ResumeSession":
		in := &ssm.ResumeSessionInput{}
		_ = json.Unmarshal(body, in)
		out, err = s.ResumeSession(r.Context(), in)
	case "TerminateSession":
		in := &ssm.TerminateSessionInput{}
		_ = json.Unmarshal(body, in)
		out, err = s.TerminateSession(r.Context(), in)
	case "DescribeInstanceInformation":
		out, err = s.DescribeInstanceInformation(r.Context(), nil)
	default:
		err = fmt.Errorf("operation %q", operation)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if err != nil {
		code := "ValidationException"
		var api interface{ ErrorCode() string }
		if errors.As(err, &api) {
			code = api.ErrorCode()
		}
		w.WriteHeader(http.StatusBadRequest)
		out = map[string]string{"__type": code, "message": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(out)
}
