package provisioner_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager/sessionmanagertest"
)

const instance = "i-0123456789abcdef0"

// sessionManager is a service whose instance answers with what it is sent, and a
// configuration for it.
func sessionManager(t *testing.T) (*sessionmanagertest.Service, *aws.Config) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sessionmanagertest.Service{Dial: func() (net.Conn, error) {
		a, b := net.Pipe()
		go func() {
			_, _ = io.Copy(b, b)
			_ = b.Close()
		}()
		return a, nil
	}}
	t.Cleanup(sessionmanagertest.Serve(l, s))
	return s, &aws.Config{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://" + l.Addr().String()),
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
	}
}

func TestSSMTransport(t *testing.T) {
	t.Parallel()
	service, config := sessionManager(t)
	transport := &provisioner.SSMTransport{InstanceID: instance, Config: config}
	if got := transport.Target(); got != instance {
		t.Errorf("Target() = %q", got)
	}
	// Each connection has a session of its own, and some are left to Close.
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			conn, err := transport.DialContext(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if got, want := conn.RemoteAddr().String(), instance+":22"; got != want {
				t.Errorf("remote address is %q, want %q", got, want)
			}
			text := bytes.Repeat([]byte{byte(i)}, 5000)
			go func() { _, _ = conn.Write(text) }()
			got := make([]byte, len(text))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, text) {
				t.Errorf("connection %d: %v, or another's data", i, err)
			}
			if i%2 == 0 {
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := transport.Close(); err != nil {
		t.Error(err)
	}
	service.Lock()
	if len(service.Sessions) != 8 {
		t.Errorf("%d sessions, want 8", len(service.Sessions))
	}
	for _, session := range service.Sessions {
		if !session.Closed && !slices.Contains(service.Terminated, session.ID) {
			t.Errorf("session %s lives on", session.ID)
		}
	}
	service.Unlock()
	// It can be used again.
	conn, err := transport.Dial()
	if err != nil {
		t.Fatal(err)
	}
	if err := transport.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
}

func TestSSMTransportErrors(t *testing.T) {
	t.Parallel()
	service, config := sessionManager(t)
	transport := &provisioner.SSMTransport{InstanceID: instance, Config: config}
	defer transport.Close()

	service.Lock()
	service.StartErr = &types.TargetNotConnected{Message: aws.String(instance + " is not connected.")}
	service.Unlock()
	if _, err := transport.Dial(); !isError[*provisioner.SSMTargetNotConnectedError](err) || !strings.Contains(err.Error(), "AmazonSSMManagedInstanceCore") {
		t.Errorf("not connected: %v", err)
	}
	service.Lock()
	service.StartErr = &types.AccessDeniedException{Message: aws.String("not authorized")}
	service.Unlock()
	if _, err := transport.Dial(); !isError[*provisioner.SSMAccessDeniedError](err) {
		t.Errorf("denied: %v", err)
	}
	service.Lock()
	service.Instances = []types.InstanceInformation{{InstanceId: aws.String(instance), PingStatus: types.PingStatusOnline}}
	service.Unlock()
	if err := transport.WaitOnline(t.Context()); err != nil {
		t.Errorf("online: %v", err)
	}
	if _, err := (&provisioner.SSMTransport{InstanceID: instance, Config: &aws.Config{}}).Dial(); err == nil || !strings.Contains(err.Error(), "region") {
		t.Errorf("no region: %v", err)
	}
	if err := new(provisioner.SSMTransport).Close(); err != nil {
		t.Errorf("Close without use: %v", err)
	}
}

func isError[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// TestSSMTransportUsesTheEnvironment needs the process's environment, so it is
// not parallel.
func TestSSMTransportUsesTheEnvironment(t *testing.T) {
	service, config := sessionManager(t)
	files := t.TempDir()
	for name, text := range map[string]string{
		"config":      "[profile nodes]\nregion = eu-central-1\n",
		"credentials": "[nodes]\naws_access_key_id = AKIDNODES\naws_secret_access_key = secret\n",
	} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(files, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(files, "credentials"))
	t.Setenv("AWS_ENDPOINT_URL", *config.BaseEndpoint)
	for region, want := range map[string]string{"": "/eu-central-1/ssmmessages/", "us-east-2": "/us-east-2/ssmmessages/"} {
		transport := &provisioner.SSMTransport{InstanceID: instance, Region: region, Profile: "nodes"}
		if _, err := transport.Dial(); err != nil {
			t.Fatal(err)
		}
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
		service.Lock()
		upgrade := service.Upgrades[len(service.Upgrades)-1]
		service.Unlock()
		if got := upgrade.Header.Get("Authorization"); !strings.Contains(got, "Credential=AKIDNODES/") || !strings.Contains(got, want) {
			t.Errorf("region %q: the data channel's request is signed with %q", region, got)
		}
	}
}
