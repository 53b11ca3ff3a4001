package sessionmanager_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"
	"github.com/coder/websocket"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/aws/gateway"
	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/sessionmanager"
	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	region    = "eu-central-1"
	keyID     = "AKIASESSIONS00000001"
	keySecret = "secret"
	userARN   = "arn:aws:iam::123456789012:user/teams/platform"
	instance  = "i-0123456789abcdef0"
	patience  = 20 * time.Second
)

// fixture is the fake behind a gateway, with one machine that echoes.
type fixture struct {
	*ssm.Client

	service *sessionmanager.Service
	url     string
	ports   sync.WaitGroup // connections to the machine
}

func setup(t *testing.T, change func(*sessionmanager.Config)) *fixture {
	t.Helper()
	cfg := sessionmanager.Config{
		AccountID: "123456789012", ResendInterval: 5 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if change != nil {
		change(&cfg)
	}
	f := &fixture{}
	var err error
	if f.service, err = sessionmanager.New(cfg); err != nil {
		t.Fatal(err)
	}
	keys := keyring.New()
	if err := keys.Register(keyring.Key{ID: keyID, Secret: keySecret, PrincipalARN: userARN}); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{
		Keys:     keys,
		Services: map[string]http.Handler{"ssm": f.service, "ssmmessages": f.service.DataChannel()},
		Fallback: http.NotFoundHandler(),
		Admin:    f.service.Admin(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var handlers sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		g.ServeHTTP(w, r)
	}))
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		f.service.Close()
		server.Close()
		handlers.Wait()
		f.ports.Wait()
	})
	f.url = server.URL
	f.Client = ssm.New(ssm.Options{
		Region: region, BaseEndpoint: &f.url, HTTPClient: &http.Client{Transport: transport}, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider(keyID, keySecret, ""),
	})
	f.register(t, echo)
	return f
}

// register makes the machine's port do what serve does.
func (f *fixture) register(t *testing.T, serve func(net.Conn)) {
	t.Helper()
	err := f.service.Register(sessionmanager.Machine{
		InstanceID: instance, Region: region, Name: "machine", Platform: "Ubuntu", Version: "24.04",
		Dial: func(ctx context.Context, id string, port int) (net.Conn, error) {
			if id != instance || port != 22 && port != 8080 {
				return nil, errors.New("dial tcp 127.0.0.1: connect: connection refused")
			}
			return pipe(ctx, &f.ports, serve)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pipe is a TCP connection to serve.
func pipe(ctx context.Context, conns *sync.WaitGroup, serve func(net.Conn)) (net.Conn, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	conns.Go(func() {
		defer listener.Close()
		if conn, err := listener.Accept(); err == nil {
			defer conn.Close()
			serve(conn)
		}
	})
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		_ = listener.Close() // nobody will come
	}
	return conn, err
}

func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

func input(change func(*ssm.StartSessionInput)) *ssm.StartSessionInput {
	in := &ssm.StartSessionInput{
		Target: new(instance), DocumentName: new("AWS-StartSSHSession"), Parameters: map[string][]string{"portNumber": {"22"}},
	}
	if change != nil {
		change(in)
	}
	return in
}

func (f *fixture) start(t *testing.T, change func(*ssm.StartSessionInput)) *ssm.StartSessionOutput {
	t.Helper()
	out, err := f.StartSession(t.Context(), input(change))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// code is the error's code, or "ok".
func code(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "ok"
	}
	apiErr, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		t.Fatalf("no API error: %v", err)
	}
	return apiErr.ErrorCode()
}

// sign signs an upgrade request.
func sign(t *testing.T, url, service string) http.Header {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	empty := sha256.Sum256(nil)
	err = v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: keyID, SecretAccessKey: keySecret}, r,
		hex.EncodeToString(empty[:]), service, region, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r.Header
}

// dial opens a websocket; the status is that of the answer, 0 if there was none.
func dial(t *testing.T, url string, header http.Header) (*websocket.Conn, int, error) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	conn, resp, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{
		HTTPHeader: header, HTTPClient: &http.Client{Transport: transport},
	})
	status := 0
	if resp != nil {
		status = resp.StatusCode
		if resp.Body != nil {
			_ = resp.Body.Close()
		}
	}
	if conn != nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, status, err
}

// opening is the first message.
func opening(token string, change func(map[string]string)) []byte {
	m := map[string]string{
		"MessageSchemaVersion": "1.0", "RequestId": uuid.NewString(), "TokenValue": token,
		"ClientId": uuid.NewString(), "ClientVersion": "1.3.0.0",
	}
	if change != nil {
		change(m)
	}
	b, _ := json.Marshal(m) // strings
	return b
}

// raw is a client of one link that does nothing by itself.
type raw struct {
	t    *testing.T
	conn *websocket.Conn
	next int64
}

// open opens a session's channel with a token.
func open(t *testing.T, url, token string) *raw {
	t.Helper()
	conn, _, err := dial(t, url, sign(t, url, "ssmmessages"))
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t, conn: conn}
	if err := conn.Write(t.Context(), websocket.MessageText, opening(token, nil)); err != nil {
		t.Fatal(err)
	}
	return r
}

// read returns the next frame, or how the link was closed.
func (r *raw) read() (frame.Frame, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	_, data, err := r.conn.Read(ctx)
	if err != nil {
		return frame.Frame{}, err
	}
	f, err := frame.Parse(data)
	if err != nil {
		r.t.Fatal(err)
	}
	return f, nil
}

// until returns the next frame that is wanted.
func (r *raw) until(wanted func(frame.Frame) bool) frame.Frame {
	r.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		f, err := r.read()
		if err != nil {
			r.t.Fatal(err)
		}
		if wanted(f) {
			return f
		}
	}
	r.t.Fatalf("not within %v", patience) // others come again and again
	return frame.Frame{}
}

func (r *raw) write(b []byte) {
	r.t.Helper()
	if err := r.conn.Write(r.t.Context(), websocket.MessageBinary, b); err != nil {
		r.t.Fatal(err)
	}
}

// frame is the next frame of the client.
func (r *raw) frame(kind frame.Payload, payload []byte) frame.Frame {
	f := frame.Frame{
		Type: frame.Input, Schema: 1, Created: time.Now(), Sequence: r.next, ID: uuid.New(), Kind: kind, Payload: payload,
	}
	r.next++
	return f
}

func ack(f frame.Frame) frame.Frame {
	payload, _ := json.Marshal(map[string]any{ // strings and a number
		"AcknowledgedMessageType": f.Type, "AcknowledgedMessageId": f.ID.String(),
		"AcknowledgedMessageSequenceNumber": f.Sequence, "IsSequentialMessage": true,
	})
	return frame.Frame{Type: frame.Acknowledge, Schema: 1, Created: time.Now(), Flags: 3, ID: uuid.New(), Payload: payload}
}

const succeeded = `{"ClientVersion":"1.1.0","ProcessedClientActions":[{"ActionType":"SessionType","ActionStatus":1,"ActionResult":null,"Error":""}],"Errors":[]}`

// handshake goes as far as data may be sent.
func (r *raw) handshake() {
	r.t.Helper()
	request := r.until(func(f frame.Frame) bool { return f.Kind == frame.HandshakeRequest })
	r.write(ack(request).Append(nil))
	r.write(r.frame(frame.HandshakeResponse, []byte(succeeded)).Append(nil))
	done := r.until(func(f frame.Frame) bool { return f.Kind == frame.HandshakeComplete })
	r.write(ack(done).Append(nil))
}

// farewell reads to the end of the link: what the client is told, and how it was closed.
func (r *raw) farewell() (string, websocket.StatusCode) {
	r.t.Helper()
	output := "no channel_closed"
	for {
		f, err := r.read()
		if err != nil {
			return output, websocket.CloseStatus(err)
		}
		if f.Type == frame.Closed {
			var m struct{ Output string }
			if err := json.Unmarshal(f.Payload, &m); err != nil {
				r.t.Fatal(err)
			}
			output = m.Output
		}
	}
}

// eventually polls.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// rules lists which rules were broken.
func (f *fixture) rules() string {
	var rules []string
	for _, v := range f.service.Violations() {
		rules = append(rules, string(v.Rule))
	}
	return strings.Join(rules, " ")
}

func random(n int) []byte {
	var b bytes.Buffer
	sum := sha256.Sum256([]byte("session manager"))
	for b.Len() < n {
		b.Write(sum[:])
		sum = sha256.Sum256(sum[:])
	}
	return b.Bytes()[:n]
}
