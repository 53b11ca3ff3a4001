package sessionmanager

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

// The agent's numbers.
const (
	window        = 10_000 // frames that may be unacknowledged
	initialRTO    = 200 * time.Millisecond
	initialSRTT   = 100 * time.Millisecond
	minimumSpread = 10 * time.Millisecond
	maximumRTO    = time.Second
	maxResends    = 3000
)

var (
	errStopped  = errors.New("stream has ended")
	errNoAnswer = errors.New("client acknowledges nothing")
)

// outgoing is a frame that waits for its acknowledgement.
type outgoing struct {
	frame   frame.Frame
	sent    time.Time // the last time
	resends int
	arrived bool // it was handed to a link
}

// sender numbers the frames of one direction, keeps them until they are
// acknowledged, and sends the oldest one again when that takes too long.
type sender struct {
	transmit func(frame.Frame) // may block, may lose the frame

	mu      sync.Mutex
	changed *sync.Cond
	paused  bool
	stopped bool
	next    int64 // the number of the next frame
	oldest  int64 // no frame before it is unacknowledged
	unacked map[int64]*outgoing
	srtt    time.Duration
	rttvar  time.Duration
	rto     time.Duration
}

func newSender(transmit func(frame.Frame)) *sender {
	s := &sender{transmit: transmit, unacked: map[int64]*outgoing{}, srtt: initialSRTT, rto: initialRTO}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// send waits until there is room for another frame and the other side is there.
func (s *sender) send(kind frame.Payload, payload []byte) error {
	s.mu.Lock()
	for !s.stopped && (s.paused || len(s.unacked) >= window) {
		s.changed.Wait()
	}
	if s.stopped {
		s.mu.Unlock()
		return errStopped
	}
	f := frame.Frame{
		Type: frame.Output, Schema: 1, Created: time.Now(), Sequence: s.next, ID: uuid.New(), Kind: kind, Payload: payload,
	}
	if s.next == 0 {
		f.Flags = frame.SYN
	}
	s.unacked[s.next] = &outgoing{frame: f, sent: f.Created}
	s.next++
	s.mu.Unlock()
	s.transmit(f)
	return nil
}

// arrived notes that a frame was handed to a link, so that it may be acknowledged.
func (s *sender) arrived(sequence int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.unacked[sequence]; o != nil {
		o.arrived = true
	}
}

// resend sends the oldest frame again if it is time.
func (s *sender) resend(now time.Time) error {
	s.mu.Lock()
	for s.oldest < s.next && s.unacked[s.oldest] == nil {
		s.oldest++
	}
	o := s.unacked[s.oldest]
	if s.paused || s.stopped || o == nil || now.Sub(o.sent) <= s.rto {
		s.mu.Unlock()
		return nil
	}
	if o.resends >= maxResends {
		s.mu.Unlock()
		return errNoAnswer
	}
	o.resends++
	o.sent = now
	f := o.frame
	s.mu.Unlock()
	s.transmit(f)
	return nil
}

// check says what is wrong with an acknowledgement.
func (s *sender) check(a acknowledgement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Sequence < 0 || a.Sequence >= s.next {
		return fmt.Errorf("acknowledges frame %d, the last one was %d", a.Sequence, s.next-1)
	}
	o := s.unacked[a.Sequence]
	switch {
	case o == nil:
		return nil // acknowledged before, since it was resent
	case !o.arrived:
		return fmt.Errorf("acknowledges frame %d, which has not arrived", a.Sequence)
	case a.ID != o.frame.ID.String():
		return fmt.Errorf("acknowledges frame %d with the id %q of another", a.Sequence, a.ID)
	}
	return nil
}

// acknowledge lets a frame go and learns from how long that took.
func (s *sender) acknowledge(sequence int64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.unacked[sequence]
	if o == nil {
		return
	}
	delete(s.unacked, sequence)
	rtt := now.Sub(o.sent)
	s.rttvar += ((s.srtt - rtt).Abs() - s.rttvar) / 4
	s.srtt += (rtt - s.srtt) / 8
	s.rto = min(s.srtt+max(minimumSpread, 4*s.rttvar), maximumRTO)
	s.changed.Broadcast()
}

func (s *sender) pause(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
	s.changed.Broadcast()
}

// stop lets those who wait go.
func (s *sender) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.changed.Broadcast()
}

// drained waits until everything is acknowledged, or stop.
func (s *sender) drained() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.stopped && len(s.unacked) > 0 {
		s.changed.Wait()
	}
}
