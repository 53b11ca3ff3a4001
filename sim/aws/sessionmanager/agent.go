package sessionmanager

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

// Versions from which client and agent multiplex port forwarding.
const (
	muxClientVersion = "1.1.70"
	lastBasicAgent   = "3.0.196.0"
)

// farewellPatience is how long an agent waits for the acknowledgement of the last
// frames before it says that the session is over.
const farewellPatience = 2 * time.Second

// runAgent plays the agent of one session until that is over.
func (s *session) runAgent(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, s.sender.stop)()
	s.mu.Lock()
	s.cancel = cancel
	over := s.status.over()
	s.mu.Unlock()
	if over {
		return
	}
	var resender sync.WaitGroup
	defer resender.Wait()
	defer cancel()
	resender.Go(func() { s.resend(ctx) })

	if err := s.handshake(ctx); err != nil {
		s.end(statusFailed, "Encountered error while initiating handshake. "+err.Error())
		return
	}
	if err := s.serve(ctx); err != nil {
		s.end(statusFailed, err.Error())
		return
	}
	s.end(statusTerminated, "")
}

func (s *session) resend(ctx context.Context) {
	ticker := time.NewTicker(s.service.cfg.ResendInterval)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			if err := s.sender.resend(now); err != nil {
				s.end(statusTerminated, err.Error())
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) handshake(ctx context.Context) error {
	start := time.Now()
	request := handshakeRequest{AgentVersion: s.machine.AgentVersion, RequestedClientActions: []requestedAction{
		{ActionType: "SessionType", ActionParameters: sessionType{SessionType: "Port", Properties: s.props}},
	}}
	if len(s.service.faults.match(event{point: atHandshake, session: s.id, target: s.machine.InstanceID})) > 0 {
		request.RequestedClientActions = append(request.RequestedClientActions, requestedAction{
			ActionType:       "KMSEncryption",
			ActionParameters: encryption{KMSKeyID: fmt.Sprintf("arn:aws:kms:%s:%s:key/00000000-0000-4000-8000-000000000000", s.region, s.service.cfg.AccountID)},
		})
	}
	if err := s.sendJSON(frame.HandshakeRequest, request); err != nil {
		return err
	}
	timeout := time.NewTimer(s.service.cfg.HandshakeTimeout)
	defer timeout.Stop()
	var f frame.Frame
	for ok := false; !ok; f, ok = s.receiver.take() {
		select {
		case <-s.receiver.arrived:
		case <-timeout.C:
			return errors.New("Handshake timed out. Please ensure that you have the latest version of the session manager plugin.") //nolint:staticcheck // AWS's words
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := s.judge(f, request); err != nil {
		return err
	}
	s.mu.Lock()
	s.complete = true
	s.mu.Unlock()
	return s.sendJSON(frame.HandshakeComplete, handshakeComplete{HandshakeTimeToComplete: time.Since(start)})
}

// judge looks at a handshake response.
func (s *session) judge(f frame.Frame, request handshakeRequest) error {
	var response handshakeResponse
	err := json.Unmarshal(f.Payload, &response)
	if err == nil && versionPattern.FindString(response.ClientVersion) == "" {
		err = fmt.Errorf("client version is %q", response.ClientVersion)
	}
	if err == nil && len(response.ProcessedClientActions) != len(request.RequestedClientActions) {
		err = errors.New("not every action is answered")
	}
	if err != nil {
		s.violate(RuleHandshake, err.Error())
		return err
	}
	for i, a := range response.ProcessedClientActions {
		if want := request.RequestedClientActions[i].ActionType; a.ActionType != want {
			s.violate(RuleHandshake, fmt.Sprintf("action %s is answered as %s", want, a.ActionType))
			return errors.New("actions are answered out of order")
		}
		if a.ActionStatus != actionSucceeded {
			return fmt.Errorf("%s failed on client with status %d error: %s", a.ActionType, a.ActionStatus, a.Error)
		}
		if a.ActionType != "SessionType" {
			return errors.New("the simulator has no KMS")
		}
	}
	if s.forwarding() && atLeast(response.ClientVersion, muxClientVersion) && !atLeast(lastBasicAgent, s.machine.AgentVersion) {
		return fmt.Errorf("the simulator does not multiplex: answer the handshake with a client version before %s", muxClientVersion)
	}
	return nil
}

func (s *session) sendJSON(kind frame.Payload, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	return s.sender.send(kind, payload)
}

// connection is one connection of the agent to the machine's port.
type connection struct {
	net.Conn
	ended chan struct{} // closed when nothing more comes from it
	stop  func() bool   // lets the context go
}

// serve connects the stream to the machine's port. An error is what the client
// is told.
func (s *session) serve(ctx context.Context) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer func() {
		s.sender.stop() // its reader may be waiting for room
		conn.close()
	}()
	s.receiver.open()
	for {
		f, ok := s.receiver.take()
		if !ok {
			select {
			case <-s.receiver.arrived:
			case <-conn.over():
				conn.close()
				if !s.forwarding() {
					s.drain()
					return nil
				}
				conn = nil // the next data connects anew
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		switch f.Kind {
		case frame.Data:
			if conn == nil {
				if conn, err = s.dial(ctx); err != nil {
					return err
				}
			}
			if conn != nil {
				_, _ = conn.Write(f.Payload) // what is wrong shows when reading
			}
		case frame.Flag:
			switch binary.BigEndian.Uint32(f.Payload) {
			case frame.DisconnectToPort:
				conn.close()
				if !s.forwarding() {
					return nil
				}
				conn = nil
			case frame.TerminateSession:
				return nil
			}
		default: // ports have no use for it
		}
	}
}

// dial connects to the port and passes on what comes from there. Without an
// error the connection may be nil: then the client was told of the failure.
func (s *session) dial(ctx context.Context) (*connection, error) {
	at := event{point: atConnect, session: s.id, target: s.machine.InstanceID}
	matched := s.service.faults.match(at)
	if i := slices.IndexFunc(matched, func(f Fault) bool { return f.Kind == KindConnectFlag }); i >= 0 {
		return nil, s.sender.send(frame.Flag, binary.BigEndian.AppendUint32(nil, frame.ConnectToPortError))
	}
	conn, err := net.Conn(nil), errors.New("dial tcp: connection refused")
	if len(matched) == 0 {
		conn, err = s.machine.Dial(ctx, s.machine.InstanceID, s.port)
	} else if matched[0].Reason != "" {
		err = errors.New(matched[0].Reason)
	}
	if err != nil {
		return nil, fmt.Errorf("Unable to connect to specified port: %w", err) //nolint:staticcheck // the agent's words
	}
	c := &connection{Conn: conn, ended: make(chan struct{})}
	c.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	go func() { // ends with the connection, which close waits for
		defer close(c.ended)
		buffer := make([]byte, frame.MaxData)
		for {
			n, err := conn.Read(buffer)
			if n > 0 && s.sender.send(frame.Data, slices.Clone(buffer[:n])) != nil {
				return
			}
			if err != nil {
				return
			}
			s.touch()
		}
	}()
	return c, nil
}

// over is closed when the machine has nothing more to say; nil has no end.
func (c *connection) over() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.ended
}

// close ends a connection, if there is one, and waits for its reader.
func (c *connection) close() {
	if c == nil {
		return
	}
	_ = c.Close() // the machine may have closed it
	c.stop()
	<-c.ended
}

// drain gives the client some time to acknowledge the last frames.
func (s *session) drain() {
	timer := time.AfterFunc(farewellPatience, s.sender.stop)
	defer timer.Stop()
	s.sender.drained()
}
