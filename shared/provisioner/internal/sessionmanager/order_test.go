package sessionmanager

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"
)

// FuzzOrder sends numbered bytes through a channel that the input steers: it
// loses, repeats and reorders messages and acknowledgements, breaks the channel
// and reads now and then. Whatever it does, what is read is what was written,
// nothing is acknowledged that is not kept, and once the channel behaves,
// everything arrives.
func FuzzOrder(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz"))
	f.Add(bytes.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 50))
	f.Add(bytes.Repeat([]byte{0, 0, 0, 1, 1, 3, 6, 8, 2}, 50))
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 500 {
			return
		}
		out, in := newSender(), receiver{}
		now := time.Unix(1, 0)
		var wire [][]byte             // on their way
		var replies []acknowledgement // on their way back
		kept := map[int64]bool{}      // sequence numbers that the receiver was given
		var written []byte
		read := 0 // bytes
		send := func() {
			frame, wait, err := out.next(now)
			if err != nil {
				t.Fatal(err)
			}
			if frame != nil {
				wire = append(wire, bytes.Clone(frame))
			}
			now = now.Add(max(wait, time.Millisecond))
		}
		arrive := func(i int) {
			m, err := parse(wire[i])
			if err != nil {
				t.Fatal(err)
			}
			kept[m.sequence] = true
			in.accept(m)
			for a, ok := in.next(); ok; a, ok = in.next() {
				if !kept[a.sequence] {
					t.Fatalf("message %d was acknowledged and never came", a.sequence)
				}
				replies = append(replies, a)
			}
		}
		receive := func(n int) {
			b := make([]byte, n)
			b = b[:in.read(b)]
			if !bytes.HasPrefix(written[read:], b) {
				t.Fatalf("after %d bytes, what is read differs from what was written", read)
			}
			read += len(b)
		}
		for i, step := range steps {
			switch step % 10 {
			case 0, 1:
				if out.room() {
					b := bytes.Repeat([]byte{byte(i)}, 1+int(step)*9)
					written = append(written, b[:out.data(b)]...)
				}
			case 2, 3:
				send()
			case 4:
				if len(wire) > 0 {
					arrive(0)
					wire = wire[1:]
				}
			case 5: // the latest overtakes all others, and comes again later
				if len(wire) > 0 {
					arrive(len(wire) - 1)
				}
			case 6:
				wire = wire[:len(wire)/2]
			case 7:
				if len(replies) > 0 {
					out.acknowledge(replies[0].sequence, now)
					replies = replies[1:]
				}
			case 8:
				wire, replies = nil, nil
				out.restart()
			case 9:
				receive(int(step))
			}
			if len(out.queue) > Window {
				t.Fatalf("%d messages are on their way", len(out.queue))
			}
		}
		for i := 0; read < len(written) || len(out.queue) > 0; i++ {
			if i > 100*len(steps)+100 {
				t.Fatalf("%d of %d bytes have arrived, %d messages are not acknowledged", read, len(written), len(out.queue))
			}
			send()
			for len(wire) > 0 {
				arrive(0)
				wire = wire[1:]
			}
			receive(4096)
			for a, ok := in.next(); ok; a, ok = in.next() {
				replies = append(replies, a)
			}
			for ; len(replies) > 0; replies = replies[1:] {
				out.acknowledge(replies[0].sequence, now)
			}
		}
	})
}

// TestReceiverIsBounded: a peer that ignores acknowledgements cannot make the
// receiver keep more than it says.
func TestReceiverIsBounded(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(i int64) int64{
		"in order":  func(i int64) int64 { return i },
		"gap first": func(i int64) int64 { return i + 1 },
	} {
		for _, size := range []int{1, maxPayload, 64 << 10} {
			var in receiver
			for i := range int64(3 * maxKept) {
				in.accept(message{sequence: next(i), id: uuid.UUID{}, payloadType: payloadData, payload: make([]byte, size)})
			}
			if n := len(in.unread) + len(in.later); n > 2*maxKept || in.unreadBytes+in.laterBytes > 2*(maxKeptBytes+64<<10) {
				t.Errorf("%s, %d bytes each: kept %d messages of %d bytes", name, size, n, in.unreadBytes+in.laterBytes)
			}
			if in.ackedBytes > readAhead+64<<10 || len(in.acks) > maxAcknowledgements {
				t.Errorf("%s, %d bytes each: acknowledged %d bytes that are not read", name, size, in.ackedBytes)
			}
		}
	}
}

// TestOvertakenIsSentAgain: three later acknowledgements are as good as a timer.
func TestOvertakenIsSentAgain(t *testing.T) {
	t.Parallel()
	s, now := newSender(), time.Unix(1, 0)
	for range 5 {
		s.data(make([]byte, maxPayload))
		if frame, _, err := s.next(now); err != nil || frame == nil {
			t.Fatalf("not sent: %v", err)
		}
	}
	for sequence := int64(1); sequence <= 3; sequence++ {
		if frame, wait, _ := s.next(now); frame != nil || wait <= 0 {
			t.Fatalf("sent again before %d later ones were acknowledged", sequence)
		}
		s.acknowledge(sequence, now)
	}
	frame, _, err := s.next(now)
	if m, wrong := parse(frame); err != nil || wrong != nil || m.sequence != 0 {
		t.Errorf("got message %d, %v, %v, want 0", m.sequence, err, wrong)
	}
	if frame, wait, _ := s.next(now); frame != nil || wait != max(s.timeout.value, resendEvery) {
		t.Errorf("sent twice again, or no timer is set: %v", wait)
	}
}

// TestGivesUp: a message that is never acknowledged is not sent for ever.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	s, began := newSender(), time.Unix(1, 0)
	s.data([]byte("x"))
	for now := began; ; {
		_, wait, err := s.next(now)
		if err != nil {
			if took := now.Sub(began); took < 5*time.Minute || took > time.Hour {
				t.Errorf("gave up after %v", took)
			}
			return
		}
		now = now.Add(wait)
	}
}

func TestRetransmissionTimeout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		rtt      time.Duration
		min, max time.Duration
	}{
		{"near", time.Millisecond, 11 * time.Millisecond, 13 * time.Millisecond},
		{"far", 150 * time.Millisecond, 159 * time.Millisecond, 162 * time.Millisecond},
		{"out of bounds", time.Minute, time.Second, time.Second},
	} {
		r := newRetransmission()
		if r.value != 200*time.Millisecond {
			t.Errorf("begins with %v", r.value)
		}
		for range 100 {
			r.sample(test.rtt)
		}
		if r.value < test.min || r.value > test.max {
			t.Errorf("%s: %v, want %v to %v", test.name, r.value, test.min, test.max)
		}
	}
}
