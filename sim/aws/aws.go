// Package aws is a simulated AWS account behind one endpoint URL, which the
// AWS SDKs, the AWS CLI and Terraform's AWS provider and S3 backend accept as
// they are (AWS_ENDPOINT_URL, path-style addresses for S3).
//
// It puts together what the packages below it are: the gateway, the fakes of
// S3, STS, EKS, Parameter Store and Session Manager, an emulator for all other
// services, and the webhook by which API servers learn whom an EKS token stands for.
package aws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/aws/account"
	"github.com/kubeopera/platform/sim/aws/addresses"
	"github.com/kubeopera/platform/sim/aws/eks"
	"github.com/kubeopera/platform/sim/aws/ekstoken"
	"github.com/kubeopera/platform/sim/aws/emulator"
	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/gateway"
	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/moto"
	"github.com/kubeopera/platform/sim/aws/policy"
	"github.com/kubeopera/platform/sim/aws/s3"
	"github.com/kubeopera/platform/sim/aws/sessionmanager"
	"github.com/kubeopera/platform/sim/aws/ssm"
	"github.com/kubeopera/platform/sim/aws/sts"
)

// DefaultAccountID is the account that documentation uses.
const DefaultAccountID = "123456789012"

// Config says how to run the account. Its zero value and a LogDir will do.
type Config struct {
	LogDir   string // required if the emulator is started: its output goes there
	CacheDir string // where the emulator is installed if PATH has none
	// Emulator is a running emulator; nil: a moto server is started.
	Emulator      *url.URL
	Address       string            // empty: a free port of 127.0.0.1
	AccountID     string            // empty: DefaultAccountID; with Emulator, that emulator's
	ControlPlanes eks.ControlPlanes // nil: EKS clusters stay CREATING
	EKSDelay      time.Duration     // how long EKS takes for anything; 0: nothing
	SSMLimits     ssm.Limits        // zero: AWS's own
	// Sessions has the times and limits of Session Manager; what it has in common
	// with the account is filled in.
	Sessions sessionmanager.Config
	// Addresses is the block of loopback addresses that load balancers and
	// elastic IPs get. Zero: they have what the emulator gives them.
	Addresses netip.Prefix
	Log       *slog.Logger // nil: discarded
}

// Account is a running simulated account.
type Account struct {
	cfg      Config
	url      string
	keys     *keyring.Ring
	gateway  *gateway.Gateway
	s3       *s3.Service
	eks      *eks.Service
	ssm      *ssm.Service
	sessions *sessionmanager.Service
	sts      *sts.Service
	client   *account.Client
	block    *addresses.Block // nil: there is none
	tokens   *ekstoken.Server
	tools    moto.Tools   // empty if an emulator was given
	emulator *moto.Server // nil if it was given
	upstream *emulator.Proxy
	server   *http.Server
	done     chan struct{}
	inflight sync.WaitGroup // calls that are being answered
}

// Start runs the account and returns when it answers.
func Start(ctx context.Context, cfg Config) (*Account, error) {
	if cfg.AccountID == "" {
		cfg.AccountID = DefaultAccountID
	}
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1:0"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.ControlPlanes == nil {
		cfg.ControlPlanes = &eks.Shared{}
	}
	a := &Account{cfg: cfg, keys: keyring.New()}
	if err := a.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start simulated AWS account: %w", err), a.Close())
	}
	return a, nil
}

func (a *Account) start(ctx context.Context) error {
	target := a.cfg.Emulator
	if target == nil {
		var err error
		if target, err = a.startEmulator(ctx); err != nil {
			return err
		}
	}
	if err := a.assemble(target); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.Address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	a.url = "http://" + listener.Addr().String()
	a.done = make(chan struct{})
	a.server = &http.Server{
		Handler: http.HandlerFunc(a.serve), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(a.cfg.Log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(a.done)
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.cfg.Log.ErrorContext(context.WithoutCancel(ctx), "gateway ended", "error", err)
		}
	}()
	a.tokens, err = ekstoken.Start(ctx, ekstoken.Config{
		Verifier: ekstoken.Verifier{Keys: a.keys, ExtraHosts: []string{listener.Addr().String()}, Now: time.Now},
		Clusters: a.eks,
		Log:      a.cfg.Log,
	})
	return err
}

func (a *Account) serve(w http.ResponseWriter, r *http.Request) {
	a.inflight.Add(1)
	defer a.inflight.Done()
	a.gateway.ServeHTTP(w, r)
}

func (a *Account) startEmulator(ctx context.Context) (*url.URL, error) {
	var err error
	if a.tools, err = moto.Find(ctx, a.cfg.CacheDir, a.cfg.Log); err != nil {
		return nil, err
	}
	a.emulator, err = moto.Start(ctx, moto.Config{
		Server: a.tools.Server, LogFile: filepath.Join(a.cfg.LogDir, "moto.log"), AccountID: a.cfg.AccountID, Log: a.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	return a.emulator.URL(), nil
}

func (a *Account) assemble(target *url.URL) (err error) {
	a.client = account.New(target)
	if a.s3, err = s3.New(s3.Config{AccountID: a.cfg.AccountID}); err != nil {
		return err
	}
	if a.eks, err = eks.New(eks.Config{
		AccountID: a.cfg.AccountID, ControlPlanes: a.cfg.ControlPlanes, Account: a.client,
		Delay: a.cfg.EKSDelay, Log: a.cfg.Log,
	}); err != nil {
		return err
	}
	a.upstream = emulator.NewProxy(target, a.cfg.Log)
	rest := emulator.Settling(a.upstream, a.client.SettleGroups, a.cfg.Log)
	rest = emulator.Guarding(rest, a.client.Dependent, a.cfg.Log)
	if a.cfg.Addresses.IsValid() {
		if a.block, err = addresses.New(a.cfg.Addresses, a.elasticIPs); err != nil {
			return err
		}
		rest = a.block.Handler(rest)
	}
	sessions := a.cfg.Sessions
	sessions.AccountID, sessions.Fallback, sessions.Log = a.cfg.AccountID, rest, a.cfg.Log
	sessions.Authorizer = rolePolicies{a.client}
	if a.sessions, err = sessionmanager.New(sessions); err != nil {
		return err
	}
	if a.ssm, err = ssm.New(ssm.Config{
		AccountID: a.cfg.AccountID, Fallback: a.sessions, Authorizer: rolePolicies{a.client}, Limits: a.cfg.SSMLimits,
	}); err != nil {
		return err
	}
	if a.sts, err = sts.New(sts.Config{Keys: a.keys, Roles: a.client}); err != nil {
		return err
	}
	a.gateway, err = gateway.New(gateway.Config{
		Keys: a.keys,
		Services: map[string]http.Handler{
			"s3": a.s3, "sts": a.sts, "eks": a.eks, "ssm": a.ssm, "ssmmessages": a.sessions.DataChannel(),
		},
		Fallback: rest,
		Admin:    a.sessions.Admin(),
		Log:      a.cfg.Log,
	})
	return err
}

// URL is the account's endpoint, for AWS_ENDPOINT_URL.
func (a *Account) URL() string { return a.url }

// ID is the account's id.
func (a *Account) ID() string { return a.cfg.AccountID }

// Keys are the access keys that the account knows.
func (a *Account) Keys() *keyring.Ring { return a.keys }

// RegisterKey adds a long-lived access key of a principal.
func (a *Account) RegisterKey(accessKeyID, secret, principalARN string) error {
	return a.keys.Register(keyring.Key{ID: accessKeyID, Secret: secret, PrincipalARN: principalARN})
}

// Role is a role that principals of the account may assume.
type Role struct {
	Path        string // empty: /
	Name        string
	Principals  []string      // ARNs of users and roles
	ExternalID  string        // empty: none is asked for
	MaxDuration time.Duration // of a session; 0: an hour
}

// CreateRole makes a role in IAM and returns its ARN. Roles that Terraform or
// anybody else makes there can be assumed just so.
func (a *Account) CreateRole(ctx context.Context, r Role) (string, error) {
	trust, err := policy.TrustFor(r.Principals, r.ExternalID)
	if err != nil {
		return "", err
	}
	if r.Path == "" {
		r.Path = "/"
	}
	return a.client.CreateRole(ctx, r.Path, r.Name, trust, r.MaxDuration)
}

// STS lets sessions end sooner than AWS would.
func (a *Account) STS() *sts.Service { return a.sts }

// Faults is what goes wrong at the gateway.
func (a *Account) Faults() *faults.Set { return a.gateway.Faults() }

// Calls returns the recorded calls that the filter selects, oldest first.
func (a *Account) Calls(f gateway.CallFilter) []gateway.Call { return a.gateway.Calls(f) }

// S3 gives a look into the buckets.
func (a *Account) S3() *s3.Service { return a.s3 }

// EKS gives a look into the clusters.
func (a *Account) EKS() *eks.Service { return a.eks }

// Sessions is Session Manager: machines are registered with it, and its faults
// are its own.
func (a *Account) Sessions() *sessionmanager.Service { return a.sessions }

// Tokens is the webhook for API servers of EKS clusters.
func (a *Account) Tokens() *ekstoken.Server { return a.tokens }

// CLI is the path of an AWS CLI, on PATH or installed beside the emulator;
// empty if the emulator was given.
func (a *Account) CLI() string { return a.tools.AWS }

// Close ends all that Start has started, in the reverse order. Calls that are
// being answered are cut off.
func (a *Account) Close() error {
	var errs []error
	if a.tokens != nil {
		errs = append(errs, a.tokens.Close())
	}
	if a.sessions != nil {
		a.sessions.Close()
	}
	if a.server != nil {
		errs = append(errs, a.server.Close())
		<-a.done
		a.inflight.Wait()
	}
	if a.upstream != nil {
		a.upstream.Close()
	}
	if a.emulator != nil {
		errs = append(errs, a.emulator.Close())
	}
	return errors.Join(errs...)
}
