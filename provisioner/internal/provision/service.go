package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// Runs is the run engine as the service uses it.
type Runs interface {
	Start(ctx context.Context, run runs.NewRun) (runs.Run, error)
	Get(ctx context.Context, id runs.ID) (runs.Run, error)
	List(ctx context.Context, filter runs.Filter) ([]runs.Run, error)
	Logs(ctx context.Context, id runs.ID, opts runs.LogOptions) (io.ReadCloser, error)
	Output(ctx context.Context, id runs.ID, key string) ([]byte, error)
}

// Credentials resolves the credentials that auth-service keeps.
type Credentials interface {
	Resolve(ctx context.Context, id string) (cloudcred.Credential, error)
}

// Config is what a Service is made of.
type Config struct {
	Runs        Runs
	Credentials Credentials
	Limits      Limits
	// RunTimeout is how long a run may take; a credential that ends sooner is refused.
	RunTimeout time.Duration
	Now        func() time.Time // nil: time.Now
}

// Service has the use cases of cluster-provisioner.
type Service struct {
	runs        Runs
	credentials Credentials
	limits      Limits
	timeout     time.Duration
	now         func() time.Time
}

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
	return &Service{runs: cfg.Runs, credentials: cfg.Credentials, limits: cfg.Limits, timeout: cfg.RunTimeout, now: now}, nil
}

// Check names all that is wrong with a request, as far as it shows in itself.
func (s *Service) Check(req api.ProvisionRequest) []api.FieldProblem {
	_, problems := Validate(req, s.limits)
	return problems
}

// Start checks a request, by itself and against what its environment already is,
// resolves its credential once and queues a run. It never waits for Terraform.
func (s *Service) Start(ctx context.Context, req api.ProvisionRequest, requestedBy string) (api.Provision, error) {
	in, problems := Validate(req, s.limits)
	if len(problems) > 0 {
		return api.Provision{}, &InvalidError{Problems: problems}
	}
	if err := s.checkChange(ctx, in); err != nil {
		return api.Provision{}, fmt.Errorf("start a run: %w", err)
	}
	credential, err := s.resolve(ctx, in.CredentialID)
	if err != nil {
		return api.Provision{}, err
	}
	if in.Topology == api.TopologyEKS && in.KubeconfigAuth == "" {
		in.KubeconfigAuth = defaultAuth(credential.Kind)
	}
	inputs, err := json.Marshal(in)
	if err != nil {
		return api.Provision{}, fmt.Errorf("store the inputs of a run: %w", err)
	}
	run, err := s.runs.Start(ctx, runs.NewRun{
		Operation:   in.Operation,
		Name:        in.Name,
		Environment: in.Environment,
		RequestedBy: requestedBy,
		Inputs:      inputs,
		Credential:  credential.Files(in.Region),
	})
	if err != nil {
		return api.Provision{}, fmt.Errorf("start a run: %w", err)
	}
	return View(run)
}

// resolve asks auth-service for the credential. One that cannot be used is a
// problem of the request; that auth-service does not answer is not.
func (s *Service) resolve(ctx context.Context, id string) (cloudcred.Credential, error) {
	credential, err := s.credentials.Resolve(ctx, id)
	refuse := func(message string) (cloudcred.Credential, error) {
		return cloudcred.Credential{}, &InvalidError{Problems: []api.FieldProblem{{Location: "body.credential_id", Message: message}}}
	}
	switch {
	case errors.Is(err, cloudcred.ErrNotFound):
		return refuse("must name a credential that auth-service knows: it knows none of that id")
	case errors.Is(err, cloudcred.ErrUnsupported):
		return refuse("must name a credential of kind access_key: no other kind works yet")
	case errors.Is(err, cloudcred.ErrInvalid):
		return refuse("must name a credential that AWS could take: the stored key has characters or a length that no AWS key has; store it anew in auth-service")
	case err != nil:
		return cloudcred.Credential{}, fmt.Errorf("resolve the credential: %w", err)
	case credential.AccessKey == nil:
		return refuse("must name a credential of kind access_key: no other kind works yet")
	}
	if ends := credential.AccessKey.ExpiresAt; !ends.IsZero() && ends.Before(s.now().Add(s.timeout)) {
		return refuse(fmt.Sprintf("must name a credential that lasts as long as a run may take, %s: this session ends at %s",
			s.timeout, ends.UTC().Format(time.RFC3339)))
	}
	return credential, nil
}

func defaultAuth(kind cloudcred.Kind) api.KubeconfigAuth {
	if kind == cloudcred.KindAccessKey {
		return api.KubeconfigAuthEmbedded
	}
	return api.KubeconfigAuthExecOnly
}

// Get gives a run as it is now.
func (s *Service) Get(ctx context.Context, id string) (api.Provision, error) {
	run, err := s.run(ctx, id)
	if err != nil {
		return api.Provision{}, err
	}
	return View(run)
}

var runID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// run finds a run. What does not look like an id cannot be one.
func (s *Service) run(ctx context.Context, id string) (runs.Run, error) {
	if !runID.MatchString(id) {
		return runs.Run{}, fmt.Errorf("get a run: %w", runs.ErrNotFound)
	}
	run, err := s.runs.Get(ctx, runs.ID(id))
	if err != nil {
		return runs.Run{}, fmt.Errorf("get run %s: %w", id, err)
	}
	return run, nil
}

// Page selects what List gives.
type Page struct {
	Status      api.Status // empty: all
	Environment string     // empty: all
	Limit       int        // 1 to MaxPage
	Cursor      string     // NextCursor of the page before; empty: from the newest
}

// MaxPage is the most runs that List gives at once: the engine's own limit less
// the one that tells whether there is a next page.
const MaxPage = 100

// List gives a page of runs, newest first.
func (s *Service) List(ctx context.Context, page Page) (api.ProvisionList, error) {
	if page.Cursor != "" && !runID.MatchString(page.Cursor) {
		return api.ProvisionList{}, &InvalidError{Problems: []api.FieldProblem{{Location: "query.cursor", Message: "must be the next_cursor of a page"}}}
	}
	if page.Environment != "" && !label.MatchString(page.Environment) {
		return api.ProvisionList{}, &InvalidError{Problems: []api.FieldProblem{{Location: "query.environment", Message: "must be the name of an environment: " + labelRule}}}
	}
	list, err := s.runs.List(ctx, runs.Filter{
		Status: page.Status, Environment: page.Environment, Limit: page.Limit + 1, Before: runs.ID(page.Cursor),
	})
	if err != nil {
		return api.ProvisionList{}, fmt.Errorf("list runs: %w", err)
	}
	out := api.ProvisionList{Provisions: []api.Provision{}}
	if len(list) > page.Limit {
		list = list[:page.Limit]
		out.NextCursor = string(list[page.Limit-1].ID)
	}
	for _, run := range list {
		view, err := View(run)
		if err != nil {
			return api.ProvisionList{}, err
		}
		out.Provisions = append(out.Provisions, view)
	}
	return out, nil
}

// Logs opens a run's log: its pod's, or what was kept of it.
func (s *Service) Logs(ctx context.Context, id string, opts runs.LogOptions) (io.ReadCloser, error) {
	if !runID.MatchString(id) {
		return nil, fmt.Errorf("get the log of a run: %w", runs.ErrNotFound)
	}
	log, err := s.runs.Logs(ctx, runs.ID(id), opts)
	if err != nil {
		return nil, fmt.Errorf("get the log of run %s: %w", id, err)
	}
	return log, nil
}

// Endpoint is an address of a cluster's API server.
type Endpoint string

// The endpoints. Most clusters have one: then it is the default, wherever it can
// be reached from.
const (
	EndpointDefault  Endpoint = ""
	EndpointInternal Endpoint = "internal" // inside the cluster's network
)

// Kubeconfig gives the kubeconfig that a run published, for one of its cluster's
// endpoints. Only an apply has one that succeeded, or that failed when the cluster
// was there but not all of its control plane.
func (s *Service) Kubeconfig(ctx context.Context, id string, endpoint Endpoint) ([]byte, error) {
	run, err := s.run(ctx, id)
	if err != nil {
		return nil, err
	}
	notReady := &NotReadyError{Status: run.Status, Operation: run.Operation}
	incomplete := run.Status == api.StatusFailed && run.ErrorCode == string(runcontract.CodeControlPlaneIncomplete)
	if run.Operation != api.OperationApply || run.Status != api.StatusSucceeded && !incomplete {
		return nil, notReady
	}
	kubeconfig, err := s.runs.Output(ctx, run.ID, runcontract.KeyKubeconfig)
	switch {
	case errors.Is(err, runs.ErrNotFound) && incomplete:
		return nil, notReady
	case errors.Is(err, runs.ErrNotFound):
		return nil, fmt.Errorf("run %s: %w", id, ErrKubeconfigMissing)
	case err != nil:
		return nil, fmt.Errorf("read the kubeconfig of run %s: %w", id, err)
	case endpoint == EndpointDefault:
		return kubeconfig, nil
	}
	internal, err := s.runs.Output(ctx, run.ID, runcontract.KeyKubeconfigInternal)
	switch {
	case errors.Is(err, runs.ErrNotFound):
		in, err := ReadInputs(run.Inputs)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", id, err)
		}
		if in.APIAccess == api.APIAccessPrivate { // its only endpoint is the internal one
			return kubeconfig, nil
		}
		return nil, fmt.Errorf("run %s: %w", id, ErrNoInternalEndpoint)
	case err != nil:
		return nil, fmt.Errorf("read the internal kubeconfig of run %s: %w", id, err)
	}
	return internal, nil
}
