package sessionmanager_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"

	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager"
	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager/sessionmanagertest"
)

func TestHandshakeRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, handshake, want, response string
	}{
		{
			name: "KMS encryption", handshake: sessionmanagertest.PortSession("", `{"ActionType":"KMSEncryption","ActionParameters":{"KMSKeyId":"arn:key"}}`),
			want:     "document SSM-SessionManagerRunShell, kmsKeyId",
			response: `"ActionType":"KMSEncryption","ActionStatus":3,`,
		},
		{
			name: "shell", handshake: `{"RequestedClientActions":[{"ActionType":"SessionType","ActionParameters":{"SessionType":"Standard_Stream"}}]}`,
			want: "not Port", response: `"ActionStatus":2`,
		},
		{
			name: "unknown action", handshake: sessionmanagertest.PortSession("", `{"ActionType":"Dance"}`),
			want: `"Dance", which is not known`, response: `"ActionType":"Dance","ActionStatus":3`,
		},
		{name: "not JSON", handshake: "{", want: "handshake request"},
		{name: "none", handshake: "none", want: "no session within 1m0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, &sessionmanagertest.Service{Handshake: test.handshake}, nil, func(w *world, _ net.Conn) {
				t := w.t
				_, err := w.client.Dial(t.Context(), target, 22)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error = %v, want it to have %q", err, test.want)
				}
				if _, ok := errors.AsType[*sessionmanager.EncryptionRequiredError](err); ok != (test.name == "KMS encryption") {
					t.Errorf("error is %T", err)
				}
				synctest.Wait()
				w.Lock()
				defer w.Unlock()
				if got := strings.Join(w.Sessions[0].Responses, ""); test.response != "" && !strings.Contains(got, test.response) {
					t.Errorf("response = %s, want it to have %s", got, test.response)
				}
				if len(w.Terminated) != 1 && !w.Sessions[0].Closed {
					t.Error("the session lives on")
				}
			})
		})
	}
}

func TestHandshakeAsksForTheRawStream(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"": `"ClientVersion":"1.3.0.0"`, "LocalPortForwarding": `"ClientVersion":"1.1.0.0"`} {
		inBubble(t, &sessionmanagertest.Service{Handshake: sessionmanagertest.PortSession(kind)}, nil, func(w *world, _ net.Conn) {
			t := w.t
			w.connect(t)
			w.Lock()
			defer w.Unlock()
			if got := w.Sessions[0].Responses[0]; !strings.Contains(got, want) {
				t.Errorf("response to %q = %s, want %s", kind, got, want)
			}
		})
	}
}

func TestUpgradeIsSigned(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, _ net.Conn) {
		t := w.t
		w.connect(t)
		w.Lock()
		got := w.Upgrades[0]
		w.Unlock()
		at, err := time.Parse("20060102T150405Z", got.Header.Get("X-Amz-Date"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+got.Host+got.RequestURI, nil)
		if err != nil {
			t.Fatal(err)
		}
		credentials, _ := w.config.Credentials.Retrieve(t.Context())
		const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		if err := v4.NewSigner().SignHTTP(t.Context(), credentials, again, empty, "ssmmessages", region, at); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Authorization", "X-Amz-Security-Token"} {
			if got, want := got.Header.Get(name), again.Header.Get(name); got != want || got == "" {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	})
	inBubble(t, &sessionmanagertest.Service{Presign: true}, nil, func(w *world, _ net.Conn) {
		t := w.t
		w.connect(t)
		w.Lock()
		defer w.Unlock()
		if got := w.Upgrades[0].Header.Get("Authorization"); got != "" {
			t.Errorf("presigned URL was signed again: %s", got)
		}
	})
}

func TestDialErrors(t *testing.T) {
	t.Parallel()
	notConnected := &types.TargetNotConnected{Message: aws.String("i-0 is not connected.")}
	for _, test := range []struct {
		name    string
		service *sessionmanagertest.Service
		edit    func(*sessionmanager.Config)
		want    string
		is      func(error) bool
	}{
		{
			name: "not registered", service: &sessionmanagertest.Service{StartErr: notConnected},
			want: "not registered with Systems Manager", is: isA[*sessionmanager.TargetNotConnectedError],
		},
		{
			name: "agent offline",
			service: &sessionmanagertest.Service{StartErr: notConnected, Instances: []types.InstanceInformation{{
				InstanceId: aws.String(target), PingStatus: types.PingStatusConnectionLost, LastPingDateTime: aws.Time(time.Unix(0, 0)),
			}}},
			want: "offline (ConnectionLost), it was last heard of at 1970-01-01T00:00:00Z", is: isA[*sessionmanager.TargetNotConnectedError],
		},
		{
			name: "not allowed to ask why", service: &sessionmanagertest.Service{StartErr: notConnected, DescribeErr: errors.New("no")},
			want: "AmazonSSMManagedInstanceCore", is: isA[*sessionmanager.TargetNotConnectedError],
		},
		{
			name: "access denied", service: &sessionmanagertest.Service{StartErr: &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}},
			want: "ssm:StartSession on the instance and on the document AWS-StartSSHSession", is: isA[*sessionmanager.AccessDeniedError],
		},
		{
			name: "data channel denied", service: &sessionmanagertest.Service{Refuse: http.StatusForbidden},
			want: "ssmmessages:OpenDataChannel", is: isA[*sessionmanager.AccessDeniedError],
		},
		{
			name: "data channel out of order", service: &sessionmanagertest.Service{Refuse: http.StatusServiceUnavailable},
			want: "but got 503", is: func(err error) bool {
				return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "no session within")
			},
		},
		{
			name: "data channel in clear", service: &sessionmanagertest.Service{}, edit: func(c *sessionmanager.Config) { c.AllowClear = false },
			want: `scheme "ws", not wss`, is: func(error) bool { return true },
		},
		{
			name: "other", service: &sessionmanagertest.Service{StartErr: errors.New("boom")}, want: "start a session with " + target + ": boom",
			is: func(error) bool { return true },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, test.service, test.edit, func(w *world, _ net.Conn) {
				t := w.t
				_, err := w.client.Dial(t.Context(), target, 22)
				if err == nil || !strings.Contains(err.Error(), test.want) || !test.is(err) {
					t.Errorf("error = %T %v, want it to have %q", err, err, test.want)
				}
				w.Lock()
				defer w.Unlock()
				if len(w.Terminated) != len(w.Sessions) {
					t.Errorf("terminated %d of %d sessions", len(w.Terminated), len(w.Sessions))
				}
			})
		})
	}
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestDialIsCancelled(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{Handshake: "none"}, nil, func(w *world, _ net.Conn) {
		t := w.t
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.client.Dial(ctx, target, 22); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want the context's", err)
		}
		// Closing the client ends a Dial, too, and there are no others after it.
		failed := make(chan error, 1)
		go func() {
			_, err := w.client.Dial(t.Context(), target, 22)
			failed <- err
		}()
		synctest.Wait()
		if err := w.client.Close(); err != nil {
			t.Error(err)
		}
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("error = %v, want %v", err, net.ErrClosed)
		}
		if _, err := w.client.Dial(t.Context(), target, 22); !errors.Is(err, net.ErrClosed) {
			t.Errorf("error = %v, want %v", err, net.ErrClosed)
		}
		w.Lock()
		defer w.Unlock()
		if len(w.Sessions) != 2 || len(w.Terminated) != 2 {
			t.Errorf("terminated %d of %d sessions, want 2 of 2", len(w.Terminated), len(w.Sessions))
		}
	})
}

func TestPortRefuses(t *testing.T) {
	t.Parallel()
	s := &sessionmanagertest.Service{Dial: func() (net.Conn, error) { return nil, errors.New("connection refused") }}
	inBubble(t, s, nil, func(w *world, _ net.Conn) {
		t := w.t
		c, err := w.client.Dial(t.Context(), target, 2222)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		if wrong, ok := errors.AsType[*sessionmanager.PortError](err); !ok || wrong.Port != 2222 || wrong.Target != target {
			t.Errorf("error = %v, want one about port 2222", err)
		}
	})
}
