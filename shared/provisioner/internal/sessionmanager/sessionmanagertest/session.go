package sessionmanagertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Payload types.
const (
	data     = 1
	request  = 5
	response = 6
	complete = 7
	flag     = 10
)

// portQueue is how many messages wait for the port to take them.
const portQueue = 2000

// Session is one session, from the agent's side. The fields are under the
// Service's lock.
type Session struct {
	ID        string
	Responses []string  // handshake responses, as JSON
	Flags     []byte    // the last byte of each flag received
	Highest   int64     // sequence number of the client's messages so far, -1 for none
	Acked     int       // of the agent's messages
	Bytes     int       // of data from the client, in order
	Closed    bool      // channel_closed has been sent
	Pauses    chan bool // true sends pause_publication, false start_publication

	service *Service
	ctx     context.Context //nolint:containedctx // the life of the session, which outlasts its websockets
	end     context.CancelFunc
	toPort  chan []byte
	writing sync.Mutex // to the websocket

	changed  *sync.Cond
	token    string
	ws       *websocket.Conn // nil: none
	messages int
	held     []byte // to be sent after the next one
	expected int64
	early    map[int64]frame
	next     int64 // sequence number of the agent's next message
	unacked  []*sending
	started  bool
	last     []byte        // channel_closed
	leaving  bool          // flag 2 has been received
	written  chan struct{} // closed when the port has taken all
}

type sending struct {
	sequence int64
	bytes    []byte
	at       time.Time
}

func newSession(s *Service, id string) *Session {
	session := &Session{
		ID: id, Highest: -1, service: s, toPort: make(chan []byte, portQueue),
		changed: sync.NewCond(s), early: map[int64]frame{}, written: make(chan struct{}),
	}
	session.ctx, session.end = context.WithCancel(context.Background())
	s.running.Go(session.resend)
	return session
}

func (s *Session) newToken() string {
	s.token = fmt.Sprintf("token-%d", s.service.random.Uint64())
	return s.token
}

// serve reads from one websocket until it breaks or the session ends.
func (s *Session) serve(ws *websocket.Conn, token string) {
	ws.SetReadLimit(1 << 20)
	s.service.Lock()
	if token != s.token || s.ctx.Err() != nil {
		s.service.Unlock()
		_ = ws.Close(websocket.StatusPolicyViolation, "token")
		return
	}
	s.token = "" // for one connection
	s.ws, s.held = ws, nil
	first := !s.started
	s.started = true
	for _, m := range s.unacked {
		m.at = time.Time{} // again, at once
	}
	last := s.last
	s.service.running.Add(1)
	defer s.service.running.Done()
	s.service.Unlock()
	stop := context.AfterFunc(s.ctx, func() { _ = ws.CloseNow() })
	defer stop()
	if first && s.service.Handshake != "none" {
		s.post(request, []byte(s.service.Handshake))
	}
	if last != nil {
		s.write(last)
	}
	for {
		_, bytes, err := ws.Read(context.Background())
		if err != nil {
			break
		}
		f, err := decode(bytes)
		if err != nil {
			s.service.Lock()
			s.Flags = append(s.Flags, 255) // no test expects it
			s.service.Unlock()
			break
		}
		for range s.copies(true) {
			s.handle(f)
		}
	}
	s.service.Lock()
	if s.ws == ws {
		s.ws = nil
	}
	s.service.Unlock()
}

// copies is how often a message arrives: 0, 1 or 2 times. It cuts the websocket
// when that is due.
func (s *Session) copies(incoming bool) int {
	s.service.Lock()
	defer s.service.Unlock()
	s.messages++
	if n := s.service.CutEvery; n > 0 && s.messages%n == 0 && s.ws != nil {
		ws := s.ws
		s.ws = nil
		s.service.running.Go(func() {
			if incoming { // both ways of ending one
				_ = ws.CloseNow()
			} else {
				_ = ws.Close(websocket.StatusNormalClosure, "Bye")
			}
		})
		return 0
	}
	switch r := s.service.random.Float64(); {
	case r < s.service.Lose:
		return 0
	case r < s.service.Lose+s.service.Repeat:
		return 2
	}
	return 1
}

func (s *Session) handle(f frame) {
	s.service.Lock()
	defer s.service.Unlock()
	switch f.kind {
	case "acknowledge":
		s.acknowledged(f)
	case "input_stream_data":
		s.Highest = max(s.Highest, f.sequence)
		if f.sequence >= s.expected && len(s.toPort)+len(s.early) >= portQueue {
			return // no acknowledgement: it will be sent again
		}
		switch {
		case f.sequence > s.expected:
			s.early[f.sequence] = f
		case f.sequence == s.expected:
			for ok := true; ok; f, ok = s.early[s.expected] {
				delete(s.early, s.expected)
				s.take(f)
				s.expected++
				s.acknowledge(f)
			}
			return
		}
		s.acknowledge(f)
	}
}

// take gives a message to whom it is for; for the port there is room.
func (s *Session) take(f frame) {
	switch f.payloadType {
	case data:
		s.toPort <- f.payload
		s.Bytes += len(f.payload)
	case response:
		s.Responses = append(s.Responses, string(f.payload))
		if slices.ContainsFunc(statuses(f.payload), func(status int) bool { return status != 1 }) {
			s.service.running.Go(func() { s.Say("handshake was cancelled") })
		} else {
			s.service.running.Go(s.connect)
		}
	case flag:
		s.Flags = append(s.Flags, f.payload[len(f.payload)-1])
		if !s.leaving {
			close(s.toPort)
		}
		s.leaving = true
	}
}

// statuses are what the client says it has done of each action.
func statuses(payload []byte) (all []int) {
	var body struct{ ProcessedClientActions []struct{ ActionStatus int } }
	_ = json.Unmarshal(payload, &body)
	for _, action := range body.ProcessedClientActions {
		all = append(all, action.ActionStatus)
	}
	return all
}

// finish ends the session, once what came before flag 2 is with the port: an
// agent acknowledges the flag after that.
func (s *Session) finish() {
	s.service.Lock()
	leaving := s.leaving
	s.service.Unlock()
	if leaving {
		select {
		case <-s.written:
		case <-s.ctx.Done():
		}
	}
	s.end()
}

func (s *Session) acknowledge(f frame) {
	if s.service.Deaf && f.payloadType != response {
		return
	}
	body, _ := json.Marshal(map[string]any{
		"AcknowledgedMessageType": f.kind, "AcknowledgedMessageId": f.id.String(),
		"AcknowledgedMessageSequenceNumber": f.sequence, "IsSequentialMessage": true,
	})
	bytes := frame{kind: "acknowledge", flags: 3, payload: body}.encode()
	// Not under the lock, and not in a goroutine for each.
	s.service.Unlock()
	s.send(bytes)
	s.service.Lock()
}

func (s *Session) acknowledged(f frame) {
	var body struct {
		AcknowledgedMessageType           string
		AcknowledgedMessageID             string
		AcknowledgedMessageSequenceNumber int64
		IsSequentialMessage               bool
	}
	if json.Unmarshal(f.payload, &body) != nil || body.AcknowledgedMessageType != "output_stream_data" ||
		len(body.AcknowledgedMessageID) != 36 || !body.IsSequentialMessage || f.flags != 3 || f.sequence != 0 {
		s.Flags = append(s.Flags, 254) // no test expects it
		return
	}
	for i, m := range s.unacked {
		if m.sequence == body.AcknowledgedMessageSequenceNumber {
			s.unacked = slices.Delete(s.unacked, i, i+1)
			s.Acked++
			s.changed.Broadcast()
			return
		}
	}
}

// connect runs the port: it completes the handshake, and carries bytes both ways
// until one side has no more.
func (s *Session) connect() {
	s.post(complete, []byte(`{"HandshakeTimeToComplete":1000000,"CustomerMessage":""}`))
	port, err := s.service.Dial()
	if err != nil {
		s.post(flag, []byte{0, 0, 0, 3})
		return
	}
	stop := context.AfterFunc(s.ctx, func() { _ = port.Close() })
	defer stop()
	s.service.running.Go(func() {
		defer close(s.written)
		defer port.Close()
		for {
			select {
			case b, ok := <-s.toPort:
				if !ok {
					return
				}
				if _, err := port.Write(b); err != nil {
					return
				}
			case <-s.ctx.Done():
				return
			}
		}
	})
	for {
		buffer := make([]byte, 1024)
		n, err := port.Read(buffer)
		if n > 0 {
			s.post(data, buffer[:n])
		}
		if err != nil {
			break
		}
	}
	s.waitUnacked(0)
	s.Say("")
}

// Say sends channel_closed, again on a later websocket.
func (s *Session) Say(output string) {
	body, _ := json.Marshal(map[string]string{"MessageType": "channel_closed", "SessionId": s.ID, "Output": output})
	bytes := frame{kind: "channel_closed", payload: body}.encode()
	s.service.Lock()
	s.last, s.Closed = bytes, true
	s.service.Unlock()
	s.write(bytes)
}

// Cut closes the websocket as the service does.
func (s *Session) Cut() {
	s.service.Lock()
	ws := s.ws
	s.service.Unlock()
	if ws != nil {
		_ = ws.Close(websocket.StatusNormalClosure, "Bye")
	}
}

// Publication sends pause_publication or start_publication, as empty as they are.
func (s *Session) Publication(pause bool) {
	kind := "start_publication"
	if pause {
		kind = "pause_publication"
	}
	empty := make([]byte, 120)
	copy(empty[4:36], fmt.Sprintf("%-32s", kind))
	s.write(empty)
}

// waitUnacked waits until at most n messages are not acknowledged.
func (s *Session) waitUnacked(n int) {
	stop := context.AfterFunc(s.ctx, func() {
		s.service.Lock()
		defer s.service.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	s.service.Lock()
	defer s.service.Unlock()
	for len(s.unacked) > n && s.ctx.Err() == nil {
		s.changed.Wait()
	}
}

// post sends a message of the stream once the window allows it.
func (s *Session) post(payloadType uint32, payload []byte) {
	window := s.service.Window
	if window == 0 {
		window = 1000
	}
	s.waitUnacked(window - 1)
	s.service.Lock()
	f := frame{kind: "output_stream_data", sequence: s.next, payloadType: payloadType, payload: payload}
	if s.next == 0 {
		f.flags = 1
	}
	bytes := f.encode()
	s.unacked = append(s.unacked, &sending{sequence: s.next, bytes: bytes, at: time.Now()})
	s.next++
	s.service.Unlock()
	s.send(bytes)
}

// resend sends the oldest message again when it is late.
func (s *Session) resend() {
	every := s.service.Resend
	if every == 0 {
		every = 100 * time.Millisecond
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		var again [][]byte
		s.service.Lock()
		if s.held != nil {
			again = append(again, s.held)
			s.held = nil
		}
		for i, m := range s.unacked {
			// After a cut all of them are due, else the oldest.
			if m.at.IsZero() || i == 0 && time.Since(m.at) > 2*every {
				again = append(again, m.bytes)
				m.at = time.Now()
			}
		}
		s.service.Unlock()
		for _, bytes := range again {
			s.send(bytes)
		}
	}
}

// send sends a message with the faults that are set.
func (s *Session) send(bytes []byte) {
	n := s.copies(false)
	s.service.Lock()
	reorder := s.service.random.Float64() < s.service.Reorder
	damage := s.service.random.Float64() < s.service.Damage
	var after []byte
	if reorder && n == 1 && s.held == nil {
		s.held, n = bytes, 0
	} else {
		after, s.held = s.held, nil
	}
	s.service.Unlock()
	if damage {
		bytes = append([]byte(nil), bytes...)
		bytes[len(bytes)-1] ^= 1
	}
	for range n {
		s.write(bytes)
	}
	if after != nil {
		s.write(after)
	}
}

func (s *Session) write(bytes []byte) {
	s.service.Lock()
	ws := s.ws
	s.service.Unlock()
	if ws == nil {
		return
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = ws.Write(context.Background(), websocket.MessageBinary, bytes)
}

// Pipe is a Dial for a Service and the other end of what it connects to.
func Pipe() (dial func() (net.Conn, error), end net.Conn) {
	a, b := net.Pipe()
	return func() (net.Conn, error) { return a, nil }, b
}
