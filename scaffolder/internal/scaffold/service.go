package scaffold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runservice"
)

// GitCredentials resolves the Git credentials that auth-service keeps.
type GitCredentials interface {
	ResolveGit(ctx context.Context, id string) (cloudcred.GitCredential, error)
}

// Clusters knows the clusters that the platform has built.
type Clusters interface {
	// Cluster is what a provisioning run has built. ErrProvisionNotFound,
	// ErrNoCluster (a ClusterError), ErrProvisionerForbidden and
	// ErrProvisionerUnavailable say why there is none.
	Cluster(ctx context.Context, provisionID string) (Cluster, error)
}

// Cluster is a cluster that the platform has built.
type Cluster struct {
	Kubeconfig   []byte
	CredentialID string // of the run that built it
}

// Platform is what the platform itself brings to runs. It is read for every run,
// so that it can be rotated.
type Platform interface {
	Secrets() (PlatformSecrets, error)
}

// PlatformSecrets are secrets of the platform.
type PlatformSecrets struct {
	Token      redact.Secret // of its repository, if that is reached by https
	SSHKey     redact.Secret // of its repository, if that is reached by ssh
	KnownHosts string        // with SSHKey
	SigningKey redact.Secret // of commits, empty: they are not signed
	// DigestSecret is what the keys of digests of sealed values come from. It must
	// not change: with another one every secret would be sealed again.
	DigestSecret redact.Secret
}

// Config is what a Service is made of.
type Config struct {
	Runs           runservice.Runs
	Credentials    runservice.Credentials
	GitCredentials GitCredentials
	Clusters       Clusters // nil: there is no cluster-provisioner
	Platform       Platform
	// Repository is the platform's own; nil: it has none.
	Repository *Repository
	// Signs says that the platform signs commits whose request brings no key.
	Signs bool
	// Services are the services that may be asked for; any if empty.
	Services []string
	// RunTimeout is how long a run may take, MergeTimeout what each of its branches
	// gets on top until it is merged. A credential that ends sooner is refused.
	RunTimeout   time.Duration
	MergeTimeout time.Duration
	Now          func() time.Time // nil: time.Now
}

// Service has the use cases of gitops-scaffolder.
type Service struct {
	runservice.Cases[api.Scaffold]
	cfg   Config
	rules Rules
}

// Started is a run that was started.
type Started = runservice.Started[api.Scaffold]

// New makes a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Runs == nil || cfg.Credentials == nil || cfg.GitCredentials == nil || cfg.Platform == nil {
		return nil, errors.New("scaffold: runs, credentials and platform are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{
		Cases: runservice.New(cfg.Runs, View), cfg: cfg,
		rules: Rules{Services: cfg.Services, Platform: cfg.Repository != nil, Provisions: cfg.Clusters != nil},
	}, nil
}

// Check names all that is wrong with a request, as far as it shows in itself; see
// runservice.Cases.Replay for what is known by its idempotency key.
func (s *Service) Check(ctx context.Context, req api.ScaffoldRequest, caller runservice.Caller) []api.FieldProblem {
	_, problems := Validate(req, s.rules)
	return s.Refuse(ctx, caller, problems)
}

// Start checks a request, gathers what it names and queues a run. It never waits
// for Git or the target.
func (s *Service) Start(ctx context.Context, req api.ScaffoldRequest, caller runservice.Caller) (Started, error) {
	if started, known, err := s.Replay(ctx, caller); known || err != nil {
		return started, err
	}
	r, problems := validate(req, s.rules)
	if len(problems) > 0 {
		return Started{}, &runservice.InvalidError{Problems: problems}
	}
	in := r.inputs
	in.Signed = in.Signed || s.cfg.Signs
	in, files, err := s.gather(ctx, in, r.secrets, r.exec)
	if err != nil {
		return Started{}, located(err, req)
	}
	return s.begin(ctx, caller, in, files, "")
}

// located says in which field of a request something is named that cannot be used.
func located(err error, req api.ScaffoldRequest) error {
	if e, ok := errors.AsType[*runservice.CredentialError](err); ok {
		field := "target.provision_id"
		switch {
		case req.Repository != nil && sameID(req.Repository.CredentialID, e.ID):
			field = "repository.credential_id"
		case req.Target.CredentialID != "":
			field = "target.credential_id"
		default:
			return runservice.Invalid("body."+field, "must name a run whose credential can be used: %s", e.Reason)
		}
		return runservice.Invalid("body."+field, "must name %s", e.Reason)
	}
	if errors.Is(err, ErrProvisionNotFound) {
		return runservice.Invalid("body.target.provision_id", "must be the id of a provisioning run: cluster-provisioner knows none of that id")
	}
	return err
}

// Retry does once more what a run did not achieve. What its request held in clear
// nobody has kept: secrets bring it again.
func (s *Service) Retry(ctx context.Context, id string, secrets api.ScaffoldSecrets, caller runservice.Caller) (Started, error) {
	if started, known, err := s.Replay(ctx, caller); known || err != nil {
		return started, err
	}
	run, err := s.FindFailed(ctx, id)
	if err != nil {
		return Started{}, err
	}
	in, err := ReadInputs(run.Inputs)
	if err != nil {
		return Started{}, fmt.Errorf("run %s: %w", id, err)
	}
	secrets, exec, err := again(in, secrets)
	if err != nil {
		return Started{}, fmt.Errorf("retry run %s: %w", id, err)
	}
	if in.Rotate && in.RotationOf == "" {
		in.RotationOf = string(run.ID)
	}
	in, files, err := s.gather(ctx, in, secrets, exec)
	if err != nil {
		return Started{}, fmt.Errorf("retry run %s: %w", id, err)
	}
	return s.begin(ctx, caller, in, files, run.ID)
}

// begin queues a run.
func (s *Service) begin(ctx context.Context, caller runservice.Caller, in Inputs, files map[string][]byte, retryOf runs.ID) (Started, error) {
	inputs, err := json.Marshal(in)
	if err != nil {
		return Started{}, fmt.Errorf("store the inputs of a run: %w", err)
	}
	return s.Begin(ctx, caller, runs.NewRun{
		Operation:   in.Operation(),
		RetryOf:     retryOf,
		Name:        in.Tree.Environment,
		Environment: in.Tree.Environment,
		Inputs:      inputs,
		Credential:  files,
	})
}
