package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager"
)

// Errors of an SSMTransport.
type (
	// SSMTargetNotConnectedError is an instance whose agent has no connection to
	// Session Manager.
	SSMTargetNotConnectedError = sessionmanager.TargetNotConnectedError
	// SSMNotOnlineError is an instance that WaitOnline waited for in vain.
	SSMNotOnlineError = sessionmanager.NotOnlineError
	// SSMAccessDeniedError is a call that the caller's identity may not make.
	SSMAccessDeniedError = sessionmanager.AccessDeniedError
	// SSMEncryptionRequiredError is a session that the account's preferences want
	// encrypted with a KMS key, which is not supported.
	SSMEncryptionRequiredError = sessionmanager.EncryptionRequiredError
	// SSMPortError is an instance on which nothing listens on the port.
	SSMPortError = sessionmanager.PortError
	// SSMClosedError is a session that the service or the agent has ended.
	SSMClosedError = sessionmanager.ClosedError
	// SSMLostError is a session that could not be resumed after its connection broke.
	SSMLostError = sessionmanager.LostError
	// SSMExpiredError is a session that ended by IdleTimeout or MaxDuration.
	SSMExpiredError = sessionmanager.ExpiredError
)

// SSMTransport establishes SSH connections through AWS Systems Manager (SSM)
// sessions, for nodes that have no address of their own to reach them by. It
// speaks the protocol of sessions itself: there is no AWS CLI, no plugin and no
// local port, so nothing else can take the port or the connection.
//
// The caller needs ssm:StartSession on the instance and on the document
// AWS-StartSSHSession, ssm:ResumeSession and ssm:TerminateSession on its own
// sessions, and ssmmessages:OpenDataChannel; WaitOnline, and the reason when an
// instance is not connected, need ssm:DescribeInstanceInformation.
//
// Its methods may be called concurrently. Its fields must not change after the
// first call.
type SSMTransport struct {
	InstanceID string // i-… or mi-…
	Region     string // "" for that of Config or of the environment
	Profile    string // of the shared configuration files, "" for the default; not used with Config

	// Config is the SDK's configuration; nil for the default chain.
	Config *aws.Config
	// Port on the instance, 0 for 22.
	Port int
	// IdleTimeout ends a connection on which no data moves, MaxDuration any; 0 for
	// never.
	IdleTimeout, MaxDuration time.Duration
	// Log, nil for none.
	Log *slog.Logger

	mu     sync.Mutex
	client *sessionmanager.Client // nil before the first use and after Close
	idle   func()                 // closes idle connections to the API
}

// Dial is DialContext without a context; it takes a minute at most.
func (s *SSMTransport) Dial() (net.Conn, error) {
	return s.DialContext(context.Background())
}

// DialContext starts a session and returns a connection to the port on the
// instance. Each call starts a session of its own, which ends when the
// connection is closed.
func (s *SSMTransport) DialContext(ctx context.Context) (net.Conn, error) {
	client, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := client.Dial(ctx, s.InstanceID, cmp.Or(s.Port, 22))
	if err != nil {
		return nil, err // not conn: a nil pointer in an interface is not nil
	}
	return conn, nil
}

// WaitOnline waits until Systems Manager has contact with the instance's agent,
// which takes a minute or two after the instance has started; five minutes at
// most.
func (s *SSMTransport) WaitOnline(ctx context.Context) error {
	client, err := s.open(ctx)
	if err != nil {
		return err
	}
	return client.WaitOnline(ctx, s.InstanceID)
}

// Target returns the EC2 instance ID.
func (s *SSMTransport) Target() string { return s.InstanceID }

// Close terminates all sessions that have been started and not been closed. The
// transport can be used again afterwards.
func (s *SSMTransport) Close() error {
	s.mu.Lock()
	client, idle := s.client, s.idle
	s.client, s.idle = nil, nil
	s.mu.Unlock()
	if client == nil {
		return nil
	}
	err := client.Close()
	idle()
	return err
}

func (s *SSMTransport) open(ctx context.Context) (*sessionmanager.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	var settings aws.Config
	if s.Config != nil {
		settings = s.Config.Copy()
	} else {
		var err error
		if settings, err = config.LoadDefaultConfig(ctx, config.WithRegion(s.Region), config.WithSharedConfigProfile(s.Profile)); err != nil {
			return nil, fmt.Errorf("AWS configuration for %s: %w", s.InstanceID, err)
		}
	}
	settings.Region = cmp.Or(s.Region, settings.Region)
	websockets, idle := httpClient(&settings)
	api := ssm.NewFromConfig(settings)
	client, err := sessionmanager.New(sessionmanager.Config{
		API: api, Region: settings.Region, Credentials: settings.Credentials, HTTPClient: websockets,
		// Only an endpoint of one's own, as of a simulator, gives data channels in clear.
		AllowClear:  api.Options().BaseEndpoint != nil,
		IdleTimeout: s.IdleTimeout, MaxDuration: s.MaxDuration, Log: s.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.InstanceID, err)
	}
	s.client, s.idle = client, idle
	return client, nil
}

// httpClient is the client for websockets, with the proxy and the certificates
// that the SDK is configured with, and what closes its idle connections. The API
// goes through the same one unless the caller has brought another.
func httpClient(settings *aws.Config) (websockets *http.Client, idle func()) {
	if client, ok := settings.HTTPClient.(*http.Client); ok {
		return client, func() {}
	}
	builder, ok := settings.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		builder = awshttp.NewBuildableClient()
	}
	client := &http.Client{
		Transport: builder.GetTransport(),
		// A signed request must not be sent elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if ok || settings.HTTPClient == nil {
		settings.HTTPClient = client
	}
	return client, client.CloseIdleConnections
}
