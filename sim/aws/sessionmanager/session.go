package sessionmanager

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

// status is a session's state, as DescribeSessions names it.
type status string

const (
	statusConnecting status = "Connecting" // no client has opened the channel
	statusConnected  status = "Connected"
	statusTerminated status = "Terminated"
	statusFailed     status = "Failed"
)

func (s status) over() bool { return s == statusTerminated || s == statusFailed }

// SessionInfo is a session as a test sees it.
type SessionInfo struct {
	ID     string `json:"id"`
	Target string `json:"target"`
	Owner  string `json:"owner"`
	Port   int    `json:"port"`
	Status string `json:"status"`
	Output string `json:"output,omitempty"` // why it ended, as the client was told
	Links  int    `json:"links"`            // how many websockets it has had
}

// session is one session. The agent's part of it is a goroutine that the service
// waits for.
type session struct {
	service  *Service
	id       string
	region   string
	owner    string
	document string
	reason   string
	props    map[string]string
	port     int
	machine  Machine
	started  time.Time
	sender   *sender
	receiver *receiver
	idle     *time.Timer

	mu        sync.Mutex
	token     string // empty: used up
	status    status
	ended     time.Time
	output    string
	link      *link // nil: the client is away
	links     int
	offline   bool               // the agent does not answer
	returning *time.Timer        // of KindPause
	complete  bool               // the handshake is
	cancel    context.CancelFunc // nil: there is no agent yet
}

// newToken is opaque to clients. It opens one link.
func newToken() string {
	var b [96]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.StdEncoding.EncodeToString(b[:])
}

// forwarding says that the session is for connections one after the other; else
// it is over with its first.
func (s *session) forwarding() bool { return s.props["type"] != "" }

// refresh makes the token for the next link; false: the session is over.
func (s *session) refresh() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.over() {
		return "", false
	}
	s.token = newToken()
	return s.token, true
}

// attach makes a websocket whose client has the token the session's link.
func (s *session) attach(token string, conn *websocket.Conn) (*link, bool) {
	s.mu.Lock()
	if s.token == "" || token != s.token || s.status.over() {
		s.mu.Unlock()
		return nil, false
	}
	s.token = ""
	old := s.link
	l := newLink(conn, s.links == 0)
	s.link = l
	s.links++
	s.status = statusConnected
	first := frame.Start
	if s.offline {
		first = frame.Pause
	}
	l.queue <- frame.Frame{Type: first, Schema: 1}.Append(nil)
	s.mu.Unlock()
	if old != nil {
		old.cut()
	}
	if l.first {
		s.service.run(s.runAgent)
	}
	s.repause()
	s.touch()
	return l, true
}

func (s *session) detach(l *link) {
	l.cut()
	s.mu.Lock()
	if s.link == l {
		s.link = nil
	}
	s.mu.Unlock()
	s.repause()
}

// repause lets the agent send if the client and itself are there.
func (s *session) repause() {
	s.mu.Lock()
	paused := s.link == nil || s.offline
	s.mu.Unlock()
	s.sender.pause(paused)
}

// present says that the agent is there or away, and tells the client.
func (s *session) present(online bool) {
	s.mu.Lock()
	changed := s.offline == online
	s.offline = !online
	if l := s.link; l != nil && changed {
		t := frame.Pause
		if online {
			t = frame.Start
		}
		l.put(frame.Frame{Type: t, Schema: 1}.Append(nil), false)
	}
	s.mu.Unlock()
	s.repause()
}

// away lets the agent be away for a while.
func (s *session) away(d time.Duration) {
	s.present(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.returning != nil {
		s.returning.Stop()
	}
	s.returning = time.AfterFunc(d, func() { s.present(true) })
}

// touch puts the idle timeout off.
func (s *session) touch() { s.idle.Reset(s.service.cfg.IdleTimeout) }

// transmit hands a frame to the link, if there is one.
func (s *session) transmit(f frame.Frame) {
	s.mu.Lock()
	l, away := s.link, s.offline
	s.mu.Unlock()
	if l == nil || away {
		return // a numbered frame is resent, the others are answered for by resent ones
	}
	numbered := f.Type == frame.Output
	s.pass(l, ToClient, f, func(raw []byte) {
		if numbered {
			s.sender.arrived(f.Sequence)
		}
		l.put(raw, numbered)
	})
}

// receive takes a frame as it came through the faults.
func (s *session) receive(raw []byte) {
	f, err := frame.Parse(raw)
	s.mu.Lock()
	away := s.offline || s.status.over()
	s.mu.Unlock()
	if err != nil || away {
		return // broken on the way, or nobody is there: the client sends it again
	}
	switch f.Type {
	case frame.Acknowledge:
		var a acknowledgement
		if json.Unmarshal(f.Payload, &a) == nil {
			s.sender.acknowledge(a.Sequence, time.Now())
		}
	case frame.Input:
		s.touch()
		if !s.receiver.accept(f) {
			return
		}
		if ack, err := acknowledge(f); err == nil {
			s.transmit(ack)
		}
	case frame.Output, frame.Closed, frame.Start, frame.Pause:
	}
}

// broken says which rule a frame breaks, before any fault has touched it.
func (s *session) broken(l *link, f frame.Frame) (Rule, string) {
	s.mu.Lock()
	complete := s.complete
	s.mu.Unlock()
	switch f.Type {
	case frame.Acknowledge:
		var a acknowledgement
		if err := json.Unmarshal(f.Payload, &a); err != nil {
			return RuleAcknowledge, err.Error()
		}
		if a.Type != frame.Output {
			return RuleAcknowledge, "acknowledges a frame of type " + string(a.Type)
		}
		if f.Sequence != 0 || f.Flags != frame.SYN|frame.FIN || f.Kind != 0 {
			return RuleAcknowledge, "sequence number, flags or payload type are not 0, 3 and 0"
		}
		if err := s.sender.check(a); err != nil {
			return RuleAcknowledge, err.Error()
		}
	case frame.Input:
		handshake := f.Kind == frame.HandshakeResponse || f.Kind == frame.EncryptionResponse
		if !complete && !handshake {
			return RuleEarlyData, "data before the handshake is complete"
		}
		if len(f.Payload) > frame.MaxData && !handshake {
			return RulePayload, "more than 1024 bytes of data"
		}
		if f.Kind == frame.Flag && (len(f.Payload) != 4 || binary.BigEndian.Uint32(f.Payload) == 0) {
			return RuleFrame, "a flag is not a number of four bytes"
		}
		if err := s.receiver.check(f, l.first); err != nil {
			return RuleSequence, err.Error()
		}
	case frame.Output, frame.Closed, frame.Start, frame.Pause:
		return RuleFrame, "a client does not send " + string(f.Type)
	default:
		return RuleFrame, "there is no message type " + string(f.Type)
	}
	return "", ""
}

// violate records what the client did and ends the session.
func (s *session) violate(rule Rule, detail string) {
	s.service.violated(s.id, rule, detail)
	s.end(statusTerminated, "Protocol violation ("+string(rule)+"): "+detail)
}

// end ends the session, once; output is what the client is told.
func (s *session) end(st status, output string) {
	s.mu.Lock()
	if s.status.over() {
		s.mu.Unlock()
		return
	}
	s.status, s.output, s.ended, s.token = st, output, time.Now(), ""
	l, cancel := s.link, s.cancel
	if s.returning != nil {
		s.returning.Stop()
	}
	s.mu.Unlock()
	s.idle.Stop()
	s.sender.stop()
	if cancel != nil {
		cancel()
	}
	if l == nil {
		return
	}
	bye := farewell{code: websocket.StatusNormalClosure}
	if f, err := closed(s.id, s.machine.InstanceID, output); err == nil {
		bye.frame = f.Append(nil)
	}
	l.close(bye)
}

func (s *session) info() SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SessionInfo{
		ID: s.id, Target: s.machine.InstanceID, Owner: s.owner, Port: s.port, Status: string(s.status), Output: s.output, Links: s.links,
	}
}
