package sessionmanager

import (
	"context"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

const (
	// linkQueue is how many frames wait for a slow websocket.
	linkQueue = 1024
	// reorderPatience is how long a frame waits for one that overtakes it.
	reorderPatience = 50 * time.Millisecond
	writePatience   = 5 * time.Second
)

// link is one websocket of a session. Its writer goroutine belongs to the handler
// that made it.
type link struct {
	conn     *websocket.Conn
	queue    chan []byte
	farewell chan farewell // has room for one
	done     chan struct{}
	finish   func()
	first    bool // of its session

	mu   sync.Mutex
	held map[Direction][]func() // what KindReorder holds back
}

// farewell is how a link is closed.
type farewell struct {
	frame  []byte // sent before; may be nil
	code   websocket.StatusCode
	reason string
}

func newLink(conn *websocket.Conn, first bool) *link {
	l := &link{
		conn: conn, queue: make(chan []byte, linkQueue), farewell: make(chan farewell, 1), done: make(chan struct{}),
		first: first, held: map[Direction][]func(){},
	}
	l.finish = sync.OnceFunc(func() { close(l.done) })
	return l
}

// cut breaks the connection.
func (l *link) cut() {
	l.finish()
	_ = l.conn.CloseNow() // it may be broken already
}

// close says goodbye after all that is queued.
func (l *link) close(f farewell) {
	select {
	case l.farewell <- f:
	default: // it is closing
	}
}

// put queues a frame, unless the link is over, or is full and it must not wait.
func (l *link) put(raw []byte, wait bool) {
	select {
	case l.queue <- raw:
		return
	default:
	}
	if !wait {
		return
	}
	select {
	case l.queue <- raw:
	case <-l.done:
	}
}

// write runs until the link is over.
func (l *link) write(ctx context.Context) {
	defer l.cut()
	for {
		select {
		case raw := <-l.queue:
			if !l.writeOne(ctx, raw) {
				return
			}
		case bye := <-l.farewell:
			for len(l.queue) > 0 {
				if !l.writeOne(ctx, <-l.queue) {
					return
				}
			}
			if bye.frame != nil && !l.writeOne(ctx, bye.frame) {
				return
			}
			_ = l.conn.Close(bye.code, bye.reason) // the other side may be gone
			return
		case <-l.done:
			return
		}
	}
}

func (l *link) writeOne(ctx context.Context, raw []byte) bool {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	return l.conn.Write(ctx, websocket.MessageBinary, raw) == nil
}

// hold keeps a frame back until the next one in its direction has passed.
func (l *link) hold(d Direction, pass func()) {
	l.mu.Lock()
	l.held[d] = append(l.held[d], pass)
	l.mu.Unlock()
	time.AfterFunc(reorderPatience, func() { l.release(d) })
}

func (l *link) release(d Direction) {
	l.mu.Lock()
	held := l.held[d]
	l.held[d] = nil
	l.mu.Unlock()
	for _, pass := range held {
		pass()
	}
}

// pass lets a frame go through the faults that act on it. deliver gets it as it
// comes out: not at all, twice, later, or broken.
func (s *session) pass(l *link, d Direction, f frame.Frame, deliver func(raw []byte)) {
	raw := f.Append(nil)
	copies, after := 1, []func(){}
	hold, late := false, time.Duration(0)
	for _, fault := range s.service.faults.match(event{
		point: atFrame, session: s.id, target: s.machine.InstanceID, direction: d, frame: f.Type,
	}) {
		switch fault.Kind {
		case KindLose:
			copies = 0
		case KindDuplicate:
			copies = 2
		case KindReorder:
			hold = true
		case KindDelay:
			late = fault.delay()
		case KindCorrupt:
			raw[80] ^= 0xff // the first byte of the digest
		case KindCut:
			after = append(after, l.cut)
		case KindBye:
			after = append(after, func() { l.close(farewell{code: websocket.StatusNormalClosure, reason: "Bye"}) })
		case KindPause:
			after = append(after, func() { s.away(fault.delay()) })
		case KindClose:
			after = append(after, func() { s.end(statusTerminated, fault.Reason) })
		case KindSlow:
			s.wait(l, fault.delay())
		case KindOffline, KindRefuseResume, KindRefuseOpen, KindEncrypt, KindConnect, KindConnectFlag:
		}
	}
	send := func() {
		for range copies {
			deliver(raw)
		}
	}
	switch {
	case hold:
		l.hold(d, send)
	case late > 0:
		time.AfterFunc(late, send)
	default:
		send()
		l.release(d)
	}
	for _, act := range after {
		act()
	}
}

func (s *session) wait(l *link, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.done:
	}
}
