package sessionmanager

import "bytes"

const (
	// readAhead is how many bytes are acknowledged before they are read. What comes
	// beyond is kept but not acknowledged, which stops a peer that keeps a window.
	readAhead = 1 << 20
	// maxKept and maxKeptBytes bound what is kept, in order and not, each. What
	// comes beyond is dropped and has to be sent again, one message per tenth of a
	// second: far slower than an acknowledgement, so this much is kept.
	maxKept      = 10_000
	maxKeptBytes = 16 << 20
	// maxAcknowledgements waiting to be sent; the peer repeats what is not
	// acknowledged.
	maxAcknowledgements = 2 * maxKept
)

// receiver puts the peer's messages in order and says which ones to acknowledge.
// It is not safe for concurrent use.
type receiver struct {
	expected int64 // sequence number of the next message in order
	ackedTo  int64 // all before it are acknowledged; those up to expected wait for the reader
	unread   []message
	later    map[int64]message // beyond expected
	// Bytes of unread payloads, of those of them that are acknowledged, and of later.
	unreadBytes, ackedBytes, laterBytes int
	acks                                []acknowledgement // to be sent
	discarding                          bool
}

// accept takes a message of stream data, whose payload it copies if it keeps it,
// and gives the messages that are in order now.
func (r *receiver) accept(m message) (ready []message) {
	if r.discarding {
		r.acknowledge(m)
		return nil
	}
	switch {
	case m.sequence < r.expected:
		// The peer has not seen the acknowledgement, or there is none yet.
		if m.sequence < r.ackedTo {
			r.acknowledge(m)
		}
		return nil
	case m.sequence > r.expected:
		r.keep(m)
		return nil
	case len(r.unread) >= maxKept || r.unreadBytes >= maxKeptBytes:
		return nil
	}
	m.payload = bytes.Clone(m.payload)
	for found := true; found; {
		ready = append(ready, m)
		r.expected++
		if m.payloadType != payloadData {
			m.payload = nil // read as nothing
		}
		r.unread = append(r.unread, m)
		r.unreadBytes += len(m.payload)
		m, found = r.later[r.expected]
		delete(r.later, r.expected)
		r.laterBytes -= len(m.payload)
	}
	r.release()
	return ready
}

// keep stores a message that came before its turn.
func (r *receiver) keep(m message) {
	if _, known := r.later[m.sequence]; !known {
		if len(r.later) >= maxKept || r.laterBytes >= maxKeptBytes {
			return
		}
		if r.later == nil {
			r.later = map[int64]message{}
		}
		m.payload = bytes.Clone(m.payload)
		r.later[m.sequence] = m
		r.laterBytes += len(m.payload)
	}
	if r.ackedBytes < readAhead {
		r.acknowledge(m)
	}
}

// release acknowledges what waits for it as far as the reader has kept up, and
// drops what has been read.
func (r *receiver) release() {
	for r.ackedTo < r.expected && r.ackedBytes < readAhead {
		m := r.unread[r.ackedTo-r.unread[0].sequence]
		r.acknowledge(m)
		r.ackedTo++
		r.ackedBytes += len(m.payload)
	}
	// The first is always acknowledged: without any before it there is room.
	n := 0
	for n < len(r.unread) && len(r.unread[n].payload) == 0 && r.unread[n].sequence < r.ackedTo {
		r.unread[n] = message{}
		n++
	}
	r.unread = r.unread[n:]
}

func (r *receiver) acknowledge(m message) {
	if len(r.acks) < maxAcknowledgements {
		r.acks = append(r.acks, acknowledgement{sequence: m.sequence, id: m.id})
	}
}

// read moves what is there into b.
func (r *receiver) read(b []byte) (n int) {
	for i := range r.unread {
		m := &r.unread[i]
		if n == len(b) || m.sequence >= r.ackedTo {
			break
		}
		k := copy(b[n:], m.payload)
		m.payload = m.payload[k:]
		n += k
	}
	r.unreadBytes -= n
	r.ackedBytes -= n
	r.release()
	return n
}

// discard drops what is there and will come, and acknowledges it, so that the
// peer is not held up.
func (r *receiver) discard() {
	for _, m := range r.unread {
		if m.sequence >= r.ackedTo {
			r.acknowledge(m)
		}
	}
	r.discarding = true
	r.unread, r.later = nil, nil
	r.unreadBytes, r.ackedBytes, r.laterBytes = 0, 0, 0
}

// next is the next acknowledgement to send.
func (r *receiver) next() (acknowledgement, bool) {
	if len(r.acks) == 0 {
		return acknowledgement{}, false
	}
	a := r.acks[0]
	r.acks = r.acks[1:]
	return a, true
}
