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
	Limits      Limits
	// RunTimeout is how long a run may take; a credential that ends sooner is refused.
	RunTimeout time.Duration
	Now        func() time.Time // nil: time.Now
}

// Service has the use cases of cluster-provisioner.
type Service struct {
	runservice.Cases[api.Provision]
	runs        runservice.Runs
	credentials runservice.Resolver
	limits      Limits
}

// Started is a run that was started.
type Started = runservice.Started[api.Provision]

// New makes a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Runs == nil || cfg.Credentials == nil {
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
		Cases: runservice.New(cfg.Runs, View), runs: cfg.Runs, limits: cfg.Limits,
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
	credential, err := s.credentials.Resolve(ctx, in.CredentialID)
	if unusable, ok := errors.AsType[*runservice.CredentialError](err); ok {
		return Started{}, runservice.Invalid("body.credential_id", "must name %s", unusable.Reason)
	}
	if err != nil {
		return Started{}, err
	}
	if in.Topology == api.TopologyEKS {
		if in.KubeconfigAuth == "" {
			in.KubeconfigAuth = defaultAuth(credential.Kind)
		}
		if in.KubeconfigAuth == api.KubeconfigAuthEmbedded && credential.Kind != cloudcred.KindAccessKey {
			return Started{}, runservice.Invalid("body.kubeconfig_auth", "must be %s with a credential of kind %s: %s would put a session into the kubeconfig that ends within hours",
				api.KubeconfigAuthExecOnly, credential.Kind, api.KubeconfigAuthEmbedded)
		}
	}
	return s.begin(ctx, caller, in, credential, "")
}

// begin queues a run.
func (s *Service) begin(ctx context.Context, caller runservice.Caller, in Inputs, credential cloudcred.Credential, retryOf runs.ID) (Started, error) {
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
		Credential:  credential.Files(in.Region, in.Environment),
	})
}
