package eks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// Endpoint is where a cluster's API server answers.
type Endpoint struct {
	URL string
	CA  []byte // PEM
}

// ErrNotReady says that an API server does not answer yet; its cluster stays CREATING.
var ErrNotReady = errors.New("API server is not ready")

// ControlPlanes knows the API servers behind the clusters.
type ControlPlanes interface {
	// Endpoint is asked whenever a cluster that waits for it is looked at, until
	// it answers. It must not block: ErrNotReady is an answer. Any other error
	// makes the cluster FAILED.
	Endpoint(ctx context.Context, region, cluster string) (Endpoint, error)
}

// Shared lets all clusters have the same API server, once it is Set. That the
// server is given later is the rule: it is started with the address of the
// webhook that knows the clusters.
type Shared struct {
	mu  sync.Mutex
	api Endpoint
}

var _ ControlPlanes = (*Shared)(nil)

// Set tells where the API server answers.
func (s *Shared) Set(api Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.api = api
}

// Endpoint returns the shared one.
func (s *Shared) Endpoint(context.Context, string, string) (Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.api.URL == "" {
		return Endpoint{}, ErrNotReady
	}
	return s.api, nil
}

// Account is the rest of the AWS account, as far as EKS looks into it.
type Account interface {
	// Subnets describes subnets; an error for one that does not exist is ErrNotFound.
	Subnets(ctx context.Context, region string, ids []string) ([]Subnet, error)
	// CreateSecurityGroup makes the group that EKS gives a cluster.
	CreateSecurityGroup(ctx context.Context, region, vpcID, cluster string) (string, error)
	DeleteSecurityGroup(ctx context.Context, region, id string) error
	// LaunchTemplate finds a template by id or name.
	LaunchTemplate(ctx context.Context, region, id, name string) (Template, error)
	// RoleTrusts says whether a role exists and may be assumed by an AWS service.
	RoleTrusts(ctx context.Context, roleARN, service string) (bool, error)
}

// ErrNotFound is what an Account's errors wrap when there is no such thing.
var ErrNotFound = errors.New("not found")

// Subnet is what EKS needs to know of a subnet.
type Subnet struct{ ID, VPCID, Zone string }

// Template is what EKS needs to know of a launch template.
type Template struct {
	ID, Name    string
	HasImage    bool // in its default version
	HasInstance bool // names an instance type
}

// Config is what the fake needs.
type Config struct {
	AccountID     string        // required
	ControlPlanes ControlPlanes // required
	Account       Account       // required
	// Delay is how long clusters, node groups, add-ons and updates take, and
	// deletions; 0 is at once.
	Delay time.Duration
	// NodeJoinTimeout is how long a node group waits for a network add-on
	// before it fails; 0 means one minute. AWS takes about 20.
	NodeJoinTimeout time.Duration
	Now             func() time.Time // nil: time.Now
	Log             *slog.Logger     // nil: discarded
}

// Service answers EKS calls.
type Service struct {
	cfg        Config
	mux        *http.ServeMux
	operations map[string]string // by the mux's pattern

	mu      sync.Mutex
	regions map[string]map[string]*cluster
	lastID  int
}

// New returns a fake without clusters.
func New(cfg Config) (*Service, error) {
	if cfg.AccountID == "" || cfg.ControlPlanes == nil || cfg.Account == nil {
		return nil, errors.New("eks: account id, control planes and account are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.NodeJoinTimeout == 0 {
		cfg.NodeJoinTimeout = time.Minute
	}
	s := &Service{cfg: cfg, mux: http.NewServeMux(), operations: map[string]string{}, regions: map[string]map[string]*cluster{}}
	s.routes()
	return s, nil
}

// routes is the whole API.
func (s *Service) routes() {
	handle(s, "POST /clusters", "CreateCluster", s.createCluster)
	handle(s, "GET /clusters", "ListClusters", s.listClusters)
	handle(s, "GET /clusters/{cluster}", "DescribeCluster", s.describeCluster)
	handle(s, "DELETE /clusters/{cluster}", "DeleteCluster", s.deleteCluster)
	handle(s, "POST /clusters/{cluster}/update-config", "UpdateClusterConfig", s.updateClusterConfig)
	handle(s, "POST /clusters/{cluster}/updates", "UpdateClusterVersion", s.updateClusterVersion)
	handle(s, "GET /clusters/{cluster}/updates", "ListUpdates", s.listUpdates)
	handle(s, "GET /clusters/{cluster}/updates/{update}", "DescribeUpdate", s.describeUpdate)
	handle(s, "POST /clusters/{cluster}/encryption-config/associate", "AssociateEncryptionConfig", s.associateEncryption)
	handle(s, "GET /cluster-versions", "DescribeClusterVersions", s.describeClusterVersions)

	handle(s, "POST /clusters/{cluster}/node-groups", "CreateNodegroup", s.createNodegroup)
	handle(s, "GET /clusters/{cluster}/node-groups", "ListNodegroups", s.listNodegroups)
	handle(s, "GET /clusters/{cluster}/node-groups/{nodegroup}", "DescribeNodegroup", s.describeNodegroup)
	handle(s, "DELETE /clusters/{cluster}/node-groups/{nodegroup}", "DeleteNodegroup", s.deleteNodegroup)
	handle(s, "POST /clusters/{cluster}/node-groups/{nodegroup}/update-config", "UpdateNodegroupConfig", s.updateNodegroupConfig)
	handle(s, "POST /clusters/{cluster}/node-groups/{nodegroup}/update-version", "UpdateNodegroupVersion", s.updateNodegroupVersion)

	handle(s, "GET /addons/supported-versions", "DescribeAddonVersions", s.describeAddonVersions)
	handle(s, "POST /clusters/{cluster}/addons", "CreateAddon", s.createAddon)
	handle(s, "GET /clusters/{cluster}/addons", "ListAddons", s.listAddons)
	handle(s, "GET /clusters/{cluster}/addons/{addon}", "DescribeAddon", s.describeAddon)
	handle(s, "POST /clusters/{cluster}/addons/{addon}/update", "UpdateAddon", s.updateAddon)
	handle(s, "DELETE /clusters/{cluster}/addons/{addon}", "DeleteAddon", s.deleteAddon)

	handle(s, "GET /access-policies", "ListAccessPolicies", s.listAccessPolicies)
	handle(s, "POST /clusters/{cluster}/access-entries", "CreateAccessEntry", s.createAccessEntry)
	handle(s, "GET /clusters/{cluster}/access-entries", "ListAccessEntries", s.listAccessEntries)
	handle(s, "GET /clusters/{cluster}/access-entries/{principal}", "DescribeAccessEntry", s.describeAccessEntry)
	handle(s, "POST /clusters/{cluster}/access-entries/{principal}", "UpdateAccessEntry", s.updateAccessEntry)
	handle(s, "DELETE /clusters/{cluster}/access-entries/{principal}", "DeleteAccessEntry", s.deleteAccessEntry)
	handle(s, "POST /clusters/{cluster}/access-entries/{principal}/access-policies", "AssociateAccessPolicy", s.associateAccessPolicy)
	handle(s, "GET /clusters/{cluster}/access-entries/{principal}/access-policies", "ListAssociatedAccessPolicies", s.listAssociatedAccessPolicies)
	handle(s, "DELETE /clusters/{cluster}/access-entries/{principal}/access-policies/{policy}", "DisassociateAccessPolicy", s.disassociateAccessPolicy)

	handle(s, "POST /clusters/{cluster}/pod-identity-associations", "CreatePodIdentityAssociation", s.createPodIdentity)
	handle(s, "GET /clusters/{cluster}/pod-identity-associations", "ListPodIdentityAssociations", s.listPodIdentities)
	handle(s, "GET /clusters/{cluster}/pod-identity-associations/{association}", "DescribePodIdentityAssociation", s.describePodIdentity)
	handle(s, "POST /clusters/{cluster}/pod-identity-associations/{association}", "UpdatePodIdentityAssociation", s.updatePodIdentity)
	handle(s, "DELETE /clusters/{cluster}/pod-identity-associations/{association}", "DeletePodIdentityAssociation", s.deletePodIdentity)

	handle(s, "GET /clusters/{cluster}/fargate-profiles", "ListFargateProfiles", s.listFargateProfiles)
	handle(s, "GET /tags/{arn}", "ListTagsForResource", s.listTags)
	handle(s, "POST /tags/{arn}", "TagResource", s.tagResource)
	handle(s, "DELETE /tags/{arn}", "UntagResource", s.untagResource)
}

// call is a request with what all operations need.
type call struct {
	*http.Request

	caller keyring.Caller
}

// handle registers one operation, whose input comes from the JSON body.
func handle[In any](s *Service, pattern, operation string, serve func(call, In) (any, error)) {
	s.operations[pattern] = operation
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var in In
		body, err := io.ReadAll(r.Body)
		if err == nil && len(body) > 0 {
			err = json.Unmarshal(body, &in)
		}
		if err != nil {
			writeError(w, r, &protocol.Error{Status: http.StatusBadRequest, Code: "SerializationException", Message: err.Error()})
			return
		}
		out, err := serve(call{Request: r, caller: keyring.CallerFrom(r.Context())}, in)
		if err != nil {
			writeError(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the client is gone: there is nobody to tell
	})
}

// none is the input of operations without a body.
type none struct{}

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Operation(r) == "" {
		writeError(w, r, &protocol.Error{
			Status: http.StatusNotFound, Code: "UnknownOperationException",
			Message: fmt.Sprintf("the simulator does not have %s %s", r.Method, r.URL.Path),
		})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Operation names the operation that a request asks for; empty if there is none.
func (s *Service) Operation(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	return s.operations[pattern]
}

// writeError maps what is no AWS error to a 500.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	apiErr, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		apiErr = &protocol.Error{Status: http.StatusInternalServerError, Code: "ServerException", Message: err.Error()}
	}
	protocol.WriteError(w, r, protocol.RESTJSON, w.Header().Get("X-Amzn-Requestid"), apiErr)
}

func invalidParameter(format string, args ...any) error {
	return &protocol.Error{Status: http.StatusBadRequest, Code: "InvalidParameterException", Message: fmt.Sprintf(format, args...)}
}

func invalidRequest(format string, args ...any) error {
	return &protocol.Error{Status: http.StatusBadRequest, Code: "InvalidRequestException", Message: fmt.Sprintf(format, args...)}
}

func inUse(format string, args ...any) error {
	return &protocol.Error{Status: http.StatusConflict, Code: "ResourceInUseException", Message: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &protocol.Error{Status: http.StatusNotFound, Code: "ResourceNotFoundException", Message: fmt.Sprintf(format, args...)}
}

var namePattern = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`)

// newID gives ids that look like UUIDs. The caller holds the lock.
func (s *Service) newID() string {
	s.lastID++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", s.lastID, s.lastID)
}

// timestamp is a time as EKS writes it: seconds since 1970.
type timestamp time.Time

func (t timestamp) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", float64(time.Time(t).UnixMilli())/1000), nil
}

// page cuts a list for maxResults and nextToken.
func page(c call, all []string) (items []string, next *string, err error) {
	size, offset := len(all), 0
	query := c.URL.Query()
	if v := query.Get("maxResults"); v != "" {
		if _, err := fmt.Sscan(v, &size); err != nil || size < 1 {
			return nil, nil, invalidParameter("maxResults is not a positive number")
		}
	}
	if v := query.Get("nextToken"); v != "" {
		if _, err := fmt.Sscan(v, &offset); err != nil || offset < 0 || offset > len(all) {
			return nil, nil, invalidParameter("nextToken is not valid")
		}
	}
	end := min(offset+size, len(all))
	if end < len(all) {
		token := fmt.Sprint(end)
		next = &token
	}
	return append([]string{}, all[offset:end]...), next, nil
}
