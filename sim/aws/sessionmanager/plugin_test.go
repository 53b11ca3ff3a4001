package sessionmanager_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/aws/sessionmanager"
	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

// findPlugin is the Session Manager plugin that tools/build has built.
func findPlugin(tb testing.TB) string {
	tb.Helper()
	build := filepath.Join("..", "..", "..", "tools", "build")
	output, err := exec.CommandContext(tb.Context(), build, "--cached", "session-manager-plugin").Output()
	if err != nil {
		skip.Missing(tb, skip.SessionPlugin, "tools/build session-manager-plugin has not been run")
	}
	return filepath.Join(strings.TrimSpace(string(output)), "session-manager-plugin")
}

// plugin is a running plugin, as the AWS CLI starts it.
type plugin struct {
	stdin  io.WriteCloser
	stdout *bufio.Reader
	done   chan error
}

func startPlugin(t *testing.T, f *fixture, session *ssm.StartSessionOutput) *plugin {
	t.Helper()
	path := findPlugin(t)
	response, err := json.Marshal(session)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	const variable = "AWS_SSM_START_SESSION_RESPONSE_TEST"
	cmd := exec.CommandContext(ctx, path, variable, region, "StartSession", "", fmt.Sprintf(`{"Target":%q}`, instance), f.url)
	search, _ := os.LookupEnv("PATH")
	cmd.Env = []string{
		"PATH=" + search, "HOME=" + t.TempDir(), variable + "=" + string(response), "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ACCESS_KEY_ID=" + keyID, "AWS_SECRET_ACCESS_KEY=" + keySecret,
	}
	cmd.Dir = t.TempDir()
	p := &plugin{done: make(chan error, 1)}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, t.Output()
	p.stdout = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		p.done <- cmd.Wait()
		_ = in.Close()
	}()
	t.Cleanup(func() {
		cancel()
		_ = out.Close()
		<-stopped
	})
	return p
}

// line reads to the one that matches.
func (p *plugin) line(t *testing.T, pattern string) []string {
	t.Helper()
	for {
		line, err := p.stdout.ReadString('\n')
		if found := regexp.MustCompile(pattern).FindStringSubmatch(line); found != nil {
			return found
		}
		if err != nil {
			t.Fatalf("no line %q: %v", pattern, err)
		}
	}
}

// AWS's own client is the judge of what this package says of the protocol: it is
// neither confused by the fake, nor does the fake take what it does amiss.
//
// Two of its weaknesses are spared: it acknowledges what it has got only once, so
// that an acknowledgement that is lost holds the agent up for good, and it ends
// when it cannot send, so that links break only between two halves of the data.
func TestPluginPassesData(t *testing.T) {
	t.Parallel()
	cut := func(s *sessionmanager.Service) { s.Cut(instance) }
	tests := map[string]struct {
		faults []sessionmanager.Fault
		middle func(*sessionmanager.Service) // between the halves
		links  int
	}{
		"undisturbed": {links: 1},
		"loss": {faults: []sessionmanager.Fault{
			{Kind: sessionmanager.KindLose, Direction: sessionmanager.ToClient, Every: 25, Seed: 1},
			{Kind: sessionmanager.KindLose, Type: frame.Input, Every: 25, Seed: 2},
		}, links: 1},
		"disorder and duplicates": {faults: []sessionmanager.Fault{
			{Kind: sessionmanager.KindReorder, Every: 5}, {Kind: sessionmanager.KindDuplicate, Every: 7},
		}, links: 1},
		"corruption":         {faults: []sessionmanager.Fault{{Kind: sessionmanager.KindCorrupt, Type: frame.Output, Every: 20}}, links: 1},
		"a cut":              {middle: cut, links: 2},
		"the service's bye":  {middle: func(s *sessionmanager.Service) { s.Bye(instance) }, links: 2},
		"one resume refused": {faults: []sessionmanager.Fault{{Kind: sessionmanager.KindRefuseResume}}, middle: cut, links: 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil)
			for _, fault := range tt.faults {
				if _, err := f.service.Faults().Add(fault); err != nil {
					t.Fatal(err)
				}
			}
			s := f.start(t, nil)
			p := startPlugin(t, f, s)
			p.line(t, "^Starting session with SessionId: "+*s.SessionId)
			p.echo(t, random(32<<10))
			if tt.middle != nil {
				tt.middle(f.service)
				eventually(t, "another link", func() bool { return f.service.Sessions()[0].Links == tt.links })
			}
			p.echo(t, random(20<<10))
			if got := f.service.Sessions()[0]; got.Links != tt.links {
				t.Errorf("%d links, want %d", got.Links, tt.links)
			}
			f.service.Faults().Clear()
			if _, err := f.TerminateSession(t.Context(), &ssm.TerminateSessionInput{SessionId: s.SessionId}); err != nil {
				t.Fatal(err)
			}
			p.line(t, "^Exiting session with sessionId: "+*s.SessionId)
			if err := <-p.done; err != nil {
				t.Errorf("plugin: %v", err)
			}
			if f.rules() != "" {
				t.Errorf("broken rules: %v", f.service.Violations())
			}
		})
	}
}

// echo sends data and reads it back.
func (p *plugin) echo(t *testing.T, data []byte) {
	t.Helper()
	go func() { _, _ = p.stdin.Write(data) }() // a failure shows as data that is missing
	got := make([]byte, len(data))
	if n, err := io.ReadFull(p.stdout, got); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("the echo of %d bytes is something else, %d, %v", len(data), n, err)
	}
}

// With an agent of the time before multiplexing, the plugin forwards a port in
// basic mode.
func TestPluginForwardsAPort(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	err := f.service.Register(sessionmanager.Machine{
		InstanceID: instance, AgentVersion: "3.0.161.0",
		Dial: func(ctx context.Context, _ string, _ int) (net.Conn, error) { return pipe(ctx, &f.ports, echo) },
	})
	if err != nil {
		t.Fatal(err)
	}
	p := startPlugin(t, f, f.start(t, forwarding))
	port := p.line(t, `^Port (\d+) opened for sessionId `)[1]
	for range 2 { // one connection after the other
		conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", net.JoinHostPort("localhost", port))
		if err != nil {
			t.Fatal(err)
		}
		want := random(5000)
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write(want); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the echo is something else, %v", err)
		}
		_ = conn.Close()
	}
	if f.rules() != "" {
		t.Errorf("broken rules: %v", f.service.Violations())
	}
}

// The plugin shows why a session is over.
func TestPluginIsToldTheReason(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	s := f.start(t, func(in *ssm.StartSessionInput) { in.Parameters = map[string][]string{"portNumber": {"23"}} })
	p := startPlugin(t, f, s)
	p.line(t, `^SessionId: `+*s.SessionId+` : Unable to connect to specified port: dial tcp`)
	if err := <-p.done; err != nil {
		t.Errorf("plugin: %v", err)
	}
}
