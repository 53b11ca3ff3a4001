package sessionmanager

import (
	"fmt"
	"time"
)

// Window is the most messages that are on their way, of maxPayload bytes each.
// The agent keeps ten times as many that arrive out of order.
const Window = 1000

const (
	// maxSends is how often one message is sent until the peer counts as gone: at
	// resendEvery or more between two that is five minutes or more.
	maxSends = 3000
	// resendEvery is the least time between two sends of one message by timer.
	resendEvery = 100 * time.Millisecond
	// overtaken is how many later messages must be acknowledged for one to count as
	// lost before its time.
	overtaken = 3
)

// sender has the messages that the peer has not acknowledged, in order. It is not
// safe for concurrent use.
type sender struct {
	first   int64       // sequence number of queue[0]
	queue   []*outgoing // not acknowledged, but for some in the middle
	sent    int         // queue[:sent] have been sent on this websocket
	timeout retransmission
	order   int64 // of sends, counted
	heard   int64 // latest send that was acknowledged
	acked   int64 // messages acknowledged so far
	// paused: the service says that nobody listens. Until it says otherwise, or an
	// acknowledgement does, one message is kept on its way.
	paused bool
}

type outgoing struct {
	sequence    int64
	payloadType uint32
	frame       []byte // room for the header, then the payload
	sends       int
	at          time.Time // of the latest send
	order       int64     // of the latest send
	acked       bool
}

func newSender() sender { return sender{timeout: newRetransmission()} }

func (s *sender) room() bool { return len(s.queue) < Window }

// data queues the first part of b, and says how long that is: the rest of the
// last message if that has not been sent yet, else a new one. The caller has
// seen to it that there is room.
func (s *sender) data(b []byte) int {
	if n := len(s.queue); n > 0 {
		last := s.queue[n-1]
		if space := offsetPayload + maxPayload - len(last.frame); last.sends == 0 && last.payloadType == payloadData && space > 0 {
			b = b[:min(len(b), space)]
			last.frame = append(last.frame, b...)
			return len(b)
		}
	}
	b = b[:min(len(b), maxPayload)]
	s.put(payloadData, b)
	return len(b)
}

// put queues a message, whether there is room or not.
func (s *sender) put(payloadType uint32, payload []byte) {
	frame := make([]byte, offsetPayload, offsetPayload+max(maxPayload, len(payload)))
	s.queue = append(s.queue, &outgoing{
		sequence: s.first + int64(len(s.queue)), payloadType: payloadType, frame: append(frame, payload...),
	})
}

// acknowledge takes the peer's word that it has a message.
func (s *sender) acknowledge(sequence int64, now time.Time) {
	i := sequence - s.first
	if i < 0 || i >= int64(len(s.queue)) {
		return
	}
	m := s.queue[i]
	if m.acked || m.sends == 0 {
		return
	}
	m.acked, m.frame = true, nil
	s.acked++
	s.paused = false
	// Of a message that was sent twice nobody knows which one is acknowledged.
	if m.sends == 1 {
		s.timeout.sample(now.Sub(m.at))
		s.heard = max(s.heard, m.order)
	}
	n := 0
	for n < len(s.queue) && s.queue[n].acked {
		s.queue[n] = nil
		n++
	}
	s.queue = s.queue[n:]
	s.first += int64(n)
	s.sent = max(0, s.sent-n)
}

// restart forgets what the lost websocket may have carried: all of it is sent
// again.
func (s *sender) restart() {
	s.sent = 0
	s.paused = false
}

// next is the frame to send now, or how long to wait for one; zero for as long as
// nothing else happens. Only the oldest message is ever sent again: once it is
// acknowledged, the next one is the oldest.
func (s *sender) next(now time.Time) (frame []byte, wait time.Duration, err error) {
	if s.sent > 0 {
		oldest := s.queue[0]
		wait = oldest.at.Add(max(s.timeout.value, resendEvery)).Sub(now)
		if wait <= 0 || oldest.order+overtaken <= s.heard {
			frame, err = s.send(oldest, now)
			return frame, 0, err
		}
	}
	for s.sent < len(s.queue) && (s.sent == 0 || !s.paused) {
		m := s.queue[s.sent]
		s.sent++
		if !m.acked {
			frame, err = s.send(m, now)
			return frame, 0, err
		}
	}
	return nil, wait, nil
}

func (s *sender) send(m *outgoing, now time.Time) ([]byte, error) {
	if m.sends == maxSends {
		return nil, fmt.Errorf("peer has not acknowledged message %d, sent %d times", m.sequence, maxSends)
	}
	if m.sends == 0 {
		sealed(m.frame, typeInput, m.sequence, 0, m.payloadType, now)
	}
	m.sends++
	s.order++
	m.at, m.order = now, s.order
	return m.frame, nil
}

// retransmission estimates how long an acknowledgement takes, as RFC 6298 does
// for TCP.
type retransmission struct {
	smoothed, variation, value time.Duration
}

func newRetransmission() retransmission {
	return retransmission{smoothed: 100 * time.Millisecond, value: 200 * time.Millisecond}
}

func (r *retransmission) sample(rtt time.Duration) {
	r.variation += ((rtt - r.smoothed).Abs() - r.variation) / 4
	r.smoothed += (rtt - r.smoothed) / 8
	r.value = min(r.smoothed+max(10*time.Millisecond, 4*r.variation), time.Second)
}
