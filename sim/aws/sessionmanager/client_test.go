package sessionmanager_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/coder/websocket"

	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

// client keeps the protocol: it numbers, acknowledges, puts in order, sends the
// oldest frame again every few milliseconds, and resumes.
type client struct {
	f       *fixture
	t       *testing.T
	session *ssm.StartSessionOutput

	mu       sync.Mutex
	link     *raw
	next     int64 // to send
	unacked  []frame.Frame
	expected int64 // to receive
	waiting  map[int64]frame.Frame
	got      []byte
	notices  string // start_publication and pause_publication
	ready    bool
	over     bool
	output   string
	failures int // of ResumeSession and of opening
}

// connect starts a session and runs its client until the test or the session ends.
func (f *fixture) connect(t *testing.T, change func(*ssm.StartSessionInput)) *client {
	t.Helper()
	c := &client{f: f, t: t, session: f.start(t, change), waiting: map[int64]frame.Frame{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.run(ctx) })
	running.Go(func() { c.resend(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return c
}

func (c *client) run(ctx context.Context) {
	token := *c.session.TokenValue
	for ctx.Err() == nil {
		if token != "" {
			c.follow(ctx, token)
		}
		c.mu.Lock()
		over := c.over
		c.mu.Unlock()
		if over || ctx.Err() != nil {
			return
		}
		out, err := c.f.ResumeSession(ctx, &ssm.ResumeSessionInput{SessionId: c.session.SessionId})
		token = ""
		switch {
		case err != nil:
			c.failed()
		case out.TokenValue == nil:
			c.mu.Lock()
			c.over = true
			c.mu.Unlock()
			return
		default:
			token = *out.TokenValue
		}
	}
}

func (c *client) failed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
}

// follow is one link.
func (c *client) follow(ctx context.Context, token string) {
	url := *c.session.StreamUrl
	conn, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: sign(c.t, url, "ssmmessages")})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		c.failed()
		return
	}
	defer func() { _ = conn.CloseNow() }()
	if conn.Write(ctx, websocket.MessageText, opening(token, nil)) != nil {
		return
	}
	c.mu.Lock()
	c.link = &raw{t: c.t, conn: conn}
	c.mu.Unlock()
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return
		}
		if f, err := frame.Parse(data); err == nil { // else it was broken on the way
			c.receive(f)
		}
	}
}

func (c *client) receive(f frame.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f.Type {
	case frame.Closed:
		var m struct{ Output string }
		_ = json.Unmarshal(f.Payload, &m) // a test sees the empty output
		c.over, c.output = true, m.Output
	case frame.Acknowledge:
		var a struct{ AcknowledgedMessageSequenceNumber int64 }
		_ = json.Unmarshal(f.Payload, &a) // then nothing is acknowledged
		for i, u := range c.unacked {
			if u.Sequence == a.AcknowledgedMessageSequenceNumber {
				c.unacked = append(c.unacked[:i:i], c.unacked[i+1:]...)
				break
			}
		}
	case frame.Start, frame.Pause:
		c.notices += string(f.Type) + " "
	case frame.Output:
		c.put(ack(f))
		if f.Sequence >= c.expected {
			c.waiting[f.Sequence] = f
		}
		for {
			f, ok := c.waiting[c.expected]
			if !ok {
				return
			}
			delete(c.waiting, c.expected)
			c.expected++
			c.take(f)
		}
	default: // the service sends no other
	}
}

// take gets the frames in order.
func (c *client) take(f frame.Frame) {
	switch f.Kind {
	case frame.HandshakeRequest:
		c.sendLocked(frame.HandshakeResponse, []byte(succeeded))
	case frame.HandshakeComplete:
		c.ready = true
	case frame.Data:
		c.got = append(c.got, f.Payload...)
	default: // for others
	}
}

func (c *client) put(f frame.Frame) {
	if c.link != nil {
		_ = c.link.conn.Write(context.Background(), websocket.MessageBinary, f.Append(nil)) // sent again later
	}
}

func (c *client) sendLocked(kind frame.Payload, payload []byte) {
	link := raw{next: c.next}
	f := link.frame(kind, payload)
	c.next++
	c.unacked = append(c.unacked, f)
	c.put(f)
}

// send sends data when the handshake is done and few frames are on their way.
func (c *client) send(data []byte) {
	c.t.Helper()
	for len(data) > 0 {
		n := min(len(data), frame.MaxData)
		eventually(c.t, "room to send", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !c.ready || len(c.unacked) > 100 {
				return c.over
			}
			c.sendLocked(frame.Data, data[:n])
			return true
		})
		data = data[n:]
	}
}

func (c *client) flag(value byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendLocked(frame.Flag, []byte{0, 0, 0, value})
}

func (c *client) resend(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			c.mu.Lock()
			if len(c.unacked) > 0 && now.Sub(c.unacked[0].Created) > 20*time.Millisecond {
				c.put(c.unacked[0])
			}
			c.mu.Unlock()
		}
	}
}

func (c *client) received() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]byte(nil), c.got...)
}

// ended waits for the end of the session and returns what the client was told.
func (c *client) ended() string {
	c.t.Helper()
	eventually(c.t, "end of the session", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.over
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output
}
