package sessionmanager

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

// reorderBuffer is how many frames are kept that nobody has taken yet.
const reorderBuffer = 10_000

// receiver puts the frames of one direction in order.
type receiver struct {
	arrived chan struct{} // has something when there may be a next frame

	mu      sync.Mutex
	next    int64 // the number of the frame that is taken next
	waiting map[int64]frame.Frame
	ready   bool // data is wanted
	highest int64
	seen    map[int64]fingerprint // of the last frames, to hold resent ones against
}

// fingerprint tells frames apart.
type fingerprint struct {
	kind   frame.Payload
	id     uuid.UUID
	digest [sha256.Size]byte
}

func newReceiver() *receiver {
	return &receiver{
		arrived: make(chan struct{}, 1), waiting: map[int64]frame.Frame{}, highest: -1, seen: map[int64]fingerprint{},
	}
}

// check says what is wrong with the number of a frame that the client sent. Where
// an earlier link may have taken frames with it, gaps are right.
func (r *receiver) check(f frame.Frame, firstLink bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if firstLink && f.Sequence > r.highest+1 {
		return fmt.Errorf("frame %d after frame %d", f.Sequence, r.highest)
	}
	mark := fingerprint{kind: f.Kind, id: f.ID, digest: sha256.Sum256(f.Payload)}
	if old, ok := r.seen[f.Sequence]; ok && old != mark {
		return fmt.Errorf("frame %d is resent with something else in it", f.Sequence)
	}
	r.seen[f.Sequence] = mark
	delete(r.seen, f.Sequence-reorderBuffer)
	r.highest = max(r.highest, f.Sequence)
	return nil
}

// accept takes a frame and says whether to acknowledge it. What is not
// acknowledged comes again: that is how a receiver holds a sender up.
func (r *receiver) accept(f frame.Frame) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.Sequence < r.next {
		return true // our acknowledgement was lost
	}
	if _, ok := r.waiting[f.Sequence]; ok {
		return true
	}
	if !r.ready && f.Kind != frame.HandshakeResponse && f.Kind != frame.EncryptionResponse ||
		len(r.waiting) >= reorderBuffer && f.Sequence != r.next {
		return false
	}
	r.waiting[f.Sequence] = f
	if f.Sequence == r.next {
		r.signal()
	}
	return true
}

func (r *receiver) signal() {
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// take returns the next frame if it is there.
func (r *receiver) take() (frame.Frame, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.waiting[r.next]
	if !ok {
		return frame.Frame{}, false
	}
	delete(r.waiting, r.next)
	r.next++
	if _, ok := r.waiting[r.next]; ok {
		r.signal()
	}
	return f, true
}

// open says that data is wanted from now on.
func (r *receiver) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = true
}
