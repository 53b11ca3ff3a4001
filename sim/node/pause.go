package node

import (
	"context"
	"net/http"
	"sync"
)

// Pause makes the kubelet do nothing, as one that hangs, or that of a node which
// is cut off: containers go on, but are neither started, signalled nor killed,
// nobody hears of them, and the API server gets no logs of them. It has no effect
// on a node that is paused.
func (n *Node) Pause() { n.pause.begin() }

// Resume ends a pause: the kubelet takes up what it finds. It has no effect on a
// node that is not paused.
func (n *Node) Resume() { n.pause.end() }

// pause is whether the kubelet does nothing.
type pause struct {
	mu    sync.Mutex
	begun chan struct{} // closed while it is paused
	ended chan struct{} // closed while it is not
}

func newPause() *pause {
	p := &pause{begun: make(chan struct{}), ended: make(chan struct{})}
	close(p.ended)
	return p
}

func (p *pause) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !closed(p.begun) {
		close(p.begun)
		p.ended = make(chan struct{})
	}
}

func (p *pause) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if closed(p.begun) {
		close(p.ended)
		p.begun = make(chan struct{})
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *pause) now() (begun, ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun, p.ended
}

// wait waits until the kubelet is not paused, or ctx ends.
func (p *pause) wait(ctx context.Context) {
	_, ended := p.now()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// cutOff is a handler whose connections break while the kubelet is paused: what
// was sent by then must not look like all there is.
func (p *pause) cutOff(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun, _ := p.now()
		ctx, cancel := context.WithCancel(r.Context())
		served := make(chan struct{})
		go func() {
			defer close(served)
			select {
			case <-begun:
				cancel()
			case <-ctx.Done():
			}
		}()
		if !closed(begun) {
			next.ServeHTTP(w, r.WithContext(ctx))
		}
		cancel()
		<-served
		if closed(begun) {
			panic(http.ErrAbortHandler)
		}
	})
}
