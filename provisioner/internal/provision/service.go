package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runservice"
)

// Config is what a Service is made of.
type Config struct {
	Runs        runservice.Runs
	Credentials runservice.Credentials
	// SSHCredentials are for clusters on machines that exist.
	SSHCredentials SSHCredentials
	Limits         Limits
	// RunTimeout is how long a run may take; a credential that ends sooner is refused.
	RunTimeout time.Duration
	Now        func() time.Time // nil: time.Now
}

// Service has the use cases of cluster-provisioner.
type Service struct {
	runservice.Cases[api.Provision]
	runs        runservice.Runs
	credentials runservice.Resolver
	ssh         SSHCredentials
	limits      Limits
}

// Started is a run that was started.
type Started = runservice.Started[api.Provision]

// New makes a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Runs == nil || cfg.Credentials == nil || cfg.SSHCredentials == nil {
		return nil, errors.New("provision: runs and credentials are required")
	}
	if err := cfg.Limits.Check(); err != nil {
		return nil, fmt.Errorf("provision: %w", err)
	}
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	return &Service{
		Cases: runservice.New(cfg.Runs, View), runs: cfg.Runs, limits: cfg.Limits, ssh: cfg.SSHCredentials,
		credentials: runservice.Resolver{Credentials: cfg.Credentials, Timeout: cfg.RunTimeout, Now: now},
	}, nil
}

// Check names all that is wrong with a request, as far as it shows in itself.
// What is known by its idempotency key was right when it came first: the rules
// may have changed since, the run has not.
func (s *Service) Check(ctx context.Context, req api.ProvisionRequest, caller runservice.Caller) []api.FieldProblem {
	_, problems := Validate(req, s.limits)
	return s.Refuse(ctx, caller, problems)
}

// Start checks a request, by itself and against what its environment already is,
// resolves its credential once and queues a run. It never waits for Terraform.
func (s *Service) Start(ctx context.Context, req api.ProvisionRequest, caller runservice.Caller) (Started, error) {
	if started, known, err := s.Replay(ctx, caller); known || err != nil {
		return started, err
	}
	in, problems := Validate(req, s.limits)
	if len(problems) > 0 {
		return Started{}, &runservice.InvalidError{Problems: problems}
	}
	if err := s.checkChange(ctx, in); err != nil {
		return Started{}, fmt.Errorf("start a run: %w", err)
	}
	c, err := s.resolve(ctx, in)
	if unusable, ok := errors.AsType[*runservice.CredentialError](err); ok {
		field := "body.credential_id"
		if unusable.ID == in.SSHCredentialID {
			field = "body.ssh_credential_id"
		}
		return Started{}, runservice.Invalid(field, "must name %s", unusable.Reason)
	}
	if err != nil {
		return Started{}, err
	}
	if in.Topology == api.TopologyEKS {
		if in.KubeconfigAuth == "" {
			in.KubeconfigAuth = defaultAuth(c.kind)
		}
		if in.KubeconfigAuth == api.KubeconfigAuthEmbedded && c.kind != cloudcred.KindAccessKey {
			return Started{}, runservice.Invalid("body.kubeconfig_auth", "must be %s with a credential of kind %s: %s would put a session into the kubeconfig that ends within hours",
				api.KubeconfigAuthExecOnly, c.kind, api.KubeconfigAuthEmbedded)
		}
	}
	return s.begin(ctx, caller, in, c, "")
}

// begin queues a run.
func (s *Service) begin(ctx context.Context, caller runservice.Caller, in Inputs, c credentials, retryOf runs.ID) (Started, error) {
	in, err := s.lookBack(ctx, in)
	if err != nil {
		return Started{}, fmt.Errorf("start a run: %w", err)
	}
	inputs, err := json.Marshal(in)
	if err != nil {
		return Started{}, fmt.Errorf("store the inputs of a run: %w", err)
	}
	return s.Begin(ctx, caller, runs.NewRun{
		Operation:   in.Operation,
		RetryOf:     retryOf,
		Name:        in.Name,
		Environment: in.Environment,
		Inputs:      inputs,
		Credential:  c.files,
	})
}
