package sessionmanager_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/sessionmanager"
	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

func forwarding(in *ssm.StartSessionInput) {
	in.DocumentName, in.Parameters = new("AWS-StartPortForwardingSession"), map[string][]string{"portNumber": {"8080"}}
}

func TestDataPassesBothWays(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]func(*ssm.StartSessionInput){"SSH": nil, "port forwarding": forwarding} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil)
			c := f.connect(t, document)
			want := random(300_000)
			c.send(want)
			eventually(t, "the echo", func() bool { return len(c.received()) >= len(want) })
			if !bytes.Equal(c.received(), want) {
				t.Error("the echo is something else")
			}
			c.flag(2)
			if got := c.ended(); got != "" {
				t.Errorf("ended with %q", got)
			}
			if f.rules() != "" {
				t.Errorf("broken rules: %s", f.rules())
			}
		})
	}
}

// The bytes are the same whatever happens to the frames.
func TestDataSurvivesFaults(t *testing.T) {
	t.Parallel()
	tests := map[string][]sessionmanager.Fault{
		"loss":                 {{Kind: sessionmanager.KindLose, Every: 17}},
		"random loss":          {{Kind: sessionmanager.KindLose, Every: 20, Seed: 7}},
		"duplicates":           {{Kind: sessionmanager.KindDuplicate, Every: 3}},
		"disorder":             {{Kind: sessionmanager.KindReorder, Every: 5}},
		"delay":                {{Kind: sessionmanager.KindDelay, Every: 9, Delay: faults.Duration(15 * time.Millisecond)}},
		"corruption":           {{Kind: sessionmanager.KindCorrupt, Every: 23}},
		"cuts":                 {{Kind: sessionmanager.KindCut, Every: 150}},
		"a cut handshake":      {{Kind: sessionmanager.KindCut, Nth: 2, Times: 2}},
		"byes":                 {{Kind: sessionmanager.KindBye, Every: 150}},
		"lost acknowledgement": {{Kind: sessionmanager.KindLose, Type: frame.Acknowledge, Every: 11}},
		"pauses":               {{Kind: sessionmanager.KindPause, Every: 200, Delay: faults.Duration(30 * time.Millisecond)}},
		"slow service":         {{Kind: sessionmanager.KindSlow, Direction: sessionmanager.ToAgent, Every: 10, Delay: faults.Duration(2 * time.Millisecond)}},
		"resumes refused": {
			{Kind: sessionmanager.KindCut, Nth: 50},
			{Kind: sessionmanager.KindRefuseResume, Times: 3},
			{Kind: sessionmanager.KindRefuseOpen, Nth: 2, Times: 2},
		},
		"all of it": {
			{Kind: sessionmanager.KindLose, Every: 50, Seed: 1},
			{Kind: sessionmanager.KindDuplicate, Every: 10, Seed: 2},
			{Kind: sessionmanager.KindReorder, Every: 10, Seed: 3},
			{Kind: sessionmanager.KindCut, Every: 300, Seed: 4},
		},
	}
	for name, list := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil)
			for _, fault := range list {
				if _, err := f.service.Faults().Add(fault); err != nil {
					t.Fatal(err)
				}
			}
			c := f.connect(t, nil)
			want := random(200_000)
			c.send(want)
			eventually(t, "the echo", func() bool { return len(c.received()) >= len(want) })
			if !bytes.Equal(c.received(), want) {
				t.Error("the echo is something else")
			}
			if f.rules() != "" {
				t.Errorf("broken rules: %s", f.rules())
			}
			for _, fault := range f.service.Faults().List() {
				if fault.Fired == 0 {
					t.Errorf("%s has not acted", fault.Kind)
				}
			}
		})
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		config   func(*sessionmanager.Config)
		document func(*ssm.StartSessionInput)
		serve    func(net.Conn)
		fault    *sessionmanager.Fault
		do       func(t *testing.T, f *fixture, c *client)
		want     string // a part of what the client is told
	}{
		{name: "with the machine's connection", serve: func(c net.Conn) { _, _ = io.WriteString(c, "bye\n") }, do: func(t *testing.T, _ *fixture, c *client) {
			t.Helper()
			eventually(t, "the last words", func() bool { return string(c.received()) == "bye\n" })
		}},
		{name: "when the port does not answer", document: func(in *ssm.StartSessionInput) { in.Parameters = map[string][]string{"portNumber": {"23"}} }, want: "Unable to connect to specified port: dial tcp"},
		{name: "by a fault of the port", fault: &sessionmanager.Fault{Kind: sessionmanager.KindConnect, Reason: "no route to host"}, want: "Unable to connect to specified port: no route to host"},
		{name: "by the client's flag", do: func(_ *testing.T, _ *fixture, c *client) { c.flag(2) }},
		{name: "by disconnecting from sshd", do: func(_ *testing.T, _ *fixture, c *client) { c.flag(1) }},
		{name: "by TerminateSession", do: func(t *testing.T, f *fixture, c *client) {
			t.Helper()
			for range 2 {
				if _, err := f.TerminateSession(t.Context(), &ssm.TerminateSessionInput{SessionId: c.session.SessionId}); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{name: "with the instance", do: func(_ *testing.T, f *fixture, _ *client) { f.service.Deregister(instance) }, want: "no longer running"},
		{name: "with the service", do: func(_ *testing.T, f *fixture, _ *client) { f.service.End("", "maintenance") }, want: "maintenance"},
		{name: "when nothing happens", config: func(c *sessionmanager.Config) { c.IdleTimeout = 50 * time.Millisecond }, want: "inactivity"},
		{name: "by a fault", fault: &sessionmanager.Fault{Kind: sessionmanager.KindClose, Nth: 3, Reason: "because"}, want: "because"},
		{name: "when encryption is demanded", fault: &sessionmanager.Fault{Kind: sessionmanager.KindEncrypt}, want: "handshake"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, tt.config)
			if tt.serve != nil {
				f.register(t, tt.serve)
			}
			if tt.fault != nil {
				if _, err := f.service.Faults().Add(*tt.fault); err != nil {
					t.Fatal(err)
				}
			}
			c := f.connect(t, tt.document)
			if tt.do != nil {
				if tt.serve == nil {
					c.send([]byte("x"))
					eventually(t, "the echo", func() bool { return len(c.received()) > 0 })
				}
				tt.do(t, f, c)
			}
			if got := c.ended(); !strings.Contains(got, tt.want) || got == "no channel_closed" {
				t.Errorf("ended with %q, want %q", got, tt.want)
			}
			out, err := f.ResumeSession(t.Context(), &ssm.ResumeSessionInput{SessionId: c.session.SessionId})
			if err != nil || out.TokenValue != nil {
				t.Errorf("a session that is over can be resumed: %v, %v", out, err)
			}
		})
	}
}

// A client of port forwarding may disconnect and connect again.
func TestForwardingReconnects(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	c := f.connect(t, forwarding)
	for i := range 3 {
		c.send([]byte("x"))
		eventually(t, "the echo", func() bool { return len(c.received()) == i+1 })
		c.flag(1)
	}
}

// An agent that multiplexes tells of a failed connection by a flag.
func TestFailedConnectionByFlag(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	if _, err := f.service.Faults().Add(sessionmanager.Fault{Kind: sessionmanager.KindConnectFlag}); err != nil {
		t.Fatal(err)
	}
	s := f.start(t, nil)
	r := open(t, *s.StreamUrl, *s.TokenValue)
	r.handshake()
	got := r.until(func(f frame.Frame) bool { return f.Type == frame.Output && f.Sequence == 2 })
	if got.Kind != frame.Flag || !bytes.Equal(got.Payload, []byte{0, 0, 0, 3}) {
		t.Errorf("got %+v", got)
	}
}

// While its agent is away nothing arrives; it does when the agent is back.
func TestAgentGoesAway(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	c := f.connect(t, nil)
	c.send([]byte("x"))
	eventually(t, "the echo", func() bool { return string(c.received()) == "x" })
	if err := f.service.SetOnline(instance, false); err != nil {
		t.Fatal(err)
	}
	if _, err := f.StartSession(t.Context(), input(nil)); code(t, err) != "TargetNotConnected" {
		t.Errorf("StartSession: %v", err)
	}
	c.send([]byte("y"))
	notices := func(want string) func() bool {
		return func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.notices == want
		}
	}
	eventually(t, "the pause", notices("start_publication pause_publication "))
	if got := string(c.received()); got != "x" {
		t.Errorf("an agent that is away echoes: %q", got)
	}
	if err := f.service.SetOnline(instance, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the echo", func() bool { return string(c.received()) == "xy" })
	eventually(t, "the start", notices("start_publication pause_publication start_publication "))
}

// What a client does not acknowledge comes again; what it sends again is
// acknowledged again.
func TestFramesAreResent(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	s := f.start(t, nil)
	r := open(t, *s.StreamUrl, *s.TokenValue)
	request := func(f frame.Frame) bool { return f.Kind == frame.HandshakeRequest }
	first, second := r.until(request), r.until(request)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("(-sent +resent):\n%s", diff)
	}
	if first.Flags != frame.SYN || first.Sequence != 0 {
		t.Errorf("the first frame is %+v", first)
	}
	r.write(ack(first).Append(nil))
	response := r.frame(frame.HandshakeResponse, []byte(succeeded)).Append(nil)
	for range 3 {
		r.write(response)
		got := r.until(func(f frame.Frame) bool { return f.Type == frame.Acknowledge })
		if got.Flags != 3 || got.Sequence != 0 || !strings.Contains(string(got.Payload), `"AcknowledgedMessageType":"input_stream_data"`) {
			t.Errorf("acknowledged by %+v", got)
		}
	}
}

func TestLinkIsClosedOnceInAWhile(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *sessionmanager.Config) { c.LinkLifetime = 20 * time.Millisecond })
	s := f.start(t, nil)
	r := open(t, *s.StreamUrl, *s.TokenValue)
	if output, status := r.farewell(); status != websocket.StatusNormalClosure || output != "no channel_closed" {
		t.Errorf("closed with %d, %q", status, output)
	}
	if got := f.service.Sessions()[0].Status; got != "Connected" {
		t.Errorf("the session is %s", got)
	}
}

func TestViolationsEndTheSession(t *testing.T) {
	t.Parallel()
	patch := func(b []byte, offset int, value byte) []byte {
		b[offset] = value
		return b
	}
	tests := []struct {
		name string
		rule sessionmanager.Rule
		do   func(r *raw, complete frame.Frame)
	}{
		{"header length 120", sessionmanager.RuleFrame, func(r *raw, _ frame.Frame) {
			r.write(patch(r.frame(frame.Data, []byte("x")).Append(nil), 3, 120))
		}},
		{"wrong digest", sessionmanager.RuleDigest, func(r *raw, _ frame.Frame) {
			r.write(patch(r.frame(frame.Data, []byte("x")).Append(nil), 120, 'y'))
		}},
		{"a long payload", sessionmanager.RulePayload, func(r *raw, _ frame.Frame) { r.write(r.frame(frame.Data, make([]byte, 1025)).Append(nil)) }},
		{"a gap", sessionmanager.RuleSequence, func(r *raw, _ frame.Frame) {
			r.next++
			r.write(r.frame(frame.Data, []byte("x")).Append(nil))
		}},
		{"another frame of the same number", sessionmanager.RuleSequence, func(r *raw, _ frame.Frame) {
			r.write(r.frame(frame.Data, []byte("x")).Append(nil))
			r.next--
			r.write(r.frame(frame.Data, []byte("y")).Append(nil))
		}},
		{"acknowledging an acknowledgement", sessionmanager.RuleAcknowledge, func(r *raw, complete frame.Frame) { r.write(ack(ack(complete)).Append(nil)) }},
		{"acknowledging what never came", sessionmanager.RuleAcknowledge, func(r *raw, complete frame.Frame) {
			complete.Sequence += 5
			r.write(ack(complete).Append(nil))
		}},
		{"an acknowledgement with a number", sessionmanager.RuleAcknowledge, func(r *raw, complete frame.Frame) {
			a := ack(complete)
			a.Sequence = 1
			r.write(a.Append(nil))
		}},
		{"a frame of the agent's", sessionmanager.RuleFrame, func(r *raw, complete frame.Frame) { r.write(complete.Append(nil)) }},
		{"an unknown type", sessionmanager.RuleFrame, func(r *raw, complete frame.Frame) {
			complete.Type = "agent_session_state"
			r.write(complete.Append(nil))
		}},
		{"a flag of one byte", sessionmanager.RuleFrame, func(r *raw, _ frame.Frame) { r.write(r.frame(frame.Flag, []byte{2}).Append(nil)) }},
		{"text", sessionmanager.RuleFrame, func(r *raw, _ frame.Frame) {
			_ = r.conn.Write(r.t.Context(), websocket.MessageText, []byte("hello")) // seen by its effect
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil)
			s := f.start(t, nil)
			r := open(t, *s.StreamUrl, *s.TokenValue)
			request := r.until(func(f frame.Frame) bool { return f.Kind == frame.HandshakeRequest })
			r.write(ack(request).Append(nil))
			r.write(r.frame(frame.HandshakeResponse, []byte(succeeded)).Append(nil))
			complete := r.until(func(f frame.Frame) bool { return f.Kind == frame.HandshakeComplete })
			tt.do(r, complete)
			if output, _ := r.farewell(); !strings.HasPrefix(output, "Protocol violation ("+string(tt.rule)+"): ") {
				t.Errorf("ended with %q", output)
			}
			if got := f.rules(); got != string(tt.rule) {
				t.Errorf("broken rules: %q", got)
			}
		})
	}
}

func TestHandshakeRules(t *testing.T) {
	t.Parallel()
	respond := func(body string) func(*raw) {
		return func(r *raw) { r.write(r.frame(frame.HandshakeResponse, []byte(body)).Append(nil)) }
	}
	tests := []struct {
		name     string
		document func(*ssm.StartSessionInput)
		do       func(r *raw)
		output   string
		rules    string
	}{
		{"data before it is complete", nil, func(r *raw) { r.write(r.frame(frame.Data, []byte("x")).Append(nil)) }, "early_data", "early_data"},
		{"no answer", nil, func(*raw) {}, "Handshake timed out", ""},
		{"no JSON", nil, respond("yes"), "handshake", "handshake"},
		{"no version", nil, respond(strings.Replace(succeeded, "1.1.0", "", 1)), "client version", "handshake"},
		{"an action left out", nil, respond(`{"ClientVersion":"1.1.0","ProcessedClientActions":[],"Errors":[]}`), "not every action", "handshake"},
		{"another action", nil, respond(strings.Replace(succeeded, "SessionType", "KMSEncryption", 1)), "is answered as", "handshake"},
		{"a failed action", nil, respond(strings.Replace(succeeded, `"ActionStatus":1`, `"ActionStatus":3`, 1)), "SessionType failed on client with status 3", ""},
		{"a client that multiplexes", forwarding, respond(strings.Replace(succeeded, "1.1.0", "1.3.0.0", 1)), "does not multiplex", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, func(c *sessionmanager.Config) { c.HandshakeTimeout = 200 * time.Millisecond })
			s := f.start(t, tt.document)
			r := open(t, *s.StreamUrl, *s.TokenValue)
			r.write(ack(r.until(func(f frame.Frame) bool { return f.Kind == frame.HandshakeRequest })).Append(nil))
			tt.do(r)
			if output, _ := r.farewell(); !strings.Contains(output, tt.output) {
				t.Errorf("ended with %q", output)
			}
			if got := f.rules(); got != tt.rules {
				t.Errorf("broken rules: %q", got)
			}
		})
	}
}

// A machine that does not read holds its client up, and no more is lost.
func TestMachineDoesNotRead(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	gate := make(chan struct{})
	f.register(t, func(c net.Conn) {
		<-gate
		echo(c)
	})
	c := f.connect(t, nil)
	want := random(500_000)
	c.send(want)
	close(gate)
	eventually(t, "the echo", func() bool { return len(c.received()) >= len(want) })
	if !bytes.Equal(c.received(), want) {
		t.Error("the echo is something else")
	}
}
