package eks

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Statuses of clusters, node groups and add-ons.
const (
	statusCreating     = "CREATING"
	statusActive       = "ACTIVE"
	statusUpdating     = "UPDATING"
	statusDeleting     = "DELETING"
	statusFailed       = "FAILED"
	statusCreateFailed = "CREATE_FAILED"
	statusDegraded     = "DEGRADED"
)

type vpcConfig struct {
	SubnetIDs              []string `json:"subnetIds"`
	SecurityGroupIDs       []string `json:"securityGroupIds"`
	ClusterSecurityGroupID string   `json:"clusterSecurityGroupId,omitempty"`
	VPCID                  string   `json:"vpcId,omitempty"`
	EndpointPublicAccess   *bool    `json:"endpointPublicAccess"`
	EndpointPrivateAccess  *bool    `json:"endpointPrivateAccess"`
	PublicAccessCIDRs      []string `json:"publicAccessCidrs"`
}

type toggle struct {
	Enabled *bool `json:"enabled,omitempty"`
}

type networkConfig struct {
	ServiceIPv4CIDR      string  `json:"serviceIpv4Cidr,omitempty"`
	IPFamily             string  `json:"ipFamily,omitempty"`
	ElasticLoadBalancing *toggle `json:"elasticLoadBalancing,omitempty"`
}

type logSetup struct {
	Types   []string `json:"types"`
	Enabled *bool    `json:"enabled"`
}

type logging struct {
	ClusterLogging []logSetup `json:"clusterLogging"`
}

type accessConfig struct {
	AuthenticationMode string `json:"authenticationMode,omitempty"`
	BootstrapAdmin     *bool  `json:"bootstrapClusterCreatorAdminPermissions,omitempty"`
}

type upgradePolicy struct {
	SupportType string `json:"supportType"`
}

type encryptionConfig struct {
	Resources []string `json:"resources"`
	Provider  struct {
		KeyARN string `json:"keyArn"`
	} `json:"provider"`
}

type computeConfig struct {
	Enabled     *bool    `json:"enabled,omitempty"`
	NodePools   []string `json:"nodePools,omitempty"`
	NodeRoleARN string   `json:"nodeRoleArn,omitempty"`
}

type storageConfig struct {
	BlockStorage *toggle `json:"blockStorage,omitempty"`
}

// clusterView is a cluster as it is described.
type clusterView struct {
	Name                 string             `json:"name"`
	ARN                  string             `json:"arn"`
	CreatedAt            timestamp          `json:"createdAt"`
	Version              string             `json:"version"`
	Endpoint             string             `json:"endpoint,omitempty"`
	RoleARN              string             `json:"roleArn"`
	VPC                  vpcConfig          `json:"resourcesVpcConfig"`
	Network              networkConfig      `json:"kubernetesNetworkConfig"`
	Logging              logging            `json:"logging"`
	Identity             map[string]any     `json:"identity,omitempty"`
	Status               string             `json:"status"`
	CertificateAuthority map[string]string  `json:"certificateAuthority"`
	PlatformVersion      string             `json:"platformVersion"`
	Tags                 map[string]string  `json:"tags"`
	EncryptionConfig     []encryptionConfig `json:"encryptionConfig,omitempty"`
	Health               health             `json:"health"`
	AccessConfig         accessConfig       `json:"accessConfig"`
	UpgradePolicy        upgradePolicy      `json:"upgradePolicy"`
	ZonalShift           *toggle            `json:"zonalShiftConfig,omitempty"`
	Compute              *computeConfig     `json:"computeConfig,omitempty"`
	Storage              *storageConfig     `json:"storageConfig,omitempty"`
	DeletionProtection   bool               `json:"deletionProtection"`
}

type health struct {
	Issues []issue `json:"issues"`
}

type issue struct {
	Code        string   `json:"code"`
	Message     string   `json:"message"`
	ResourceIDs []string `json:"resourceIds,omitempty"`
}

// cluster is a view that does not change by itself, with what makes it change.
type cluster struct {
	view              clusterView
	region            string
	readyAt           time.Time
	goneAt            time.Time // zero: not being deleted
	failed            bool
	selfManagedAddons bool
	nodegroups        map[string]*nodegroup
	addons            map[string]*addon
	entries           map[string]*entry // by principal ARN
	identities        map[string]*podIdentity
	updates           []*update
}

// cluster finds one that is not gone. The caller holds the lock.
func (s *Service) cluster(region, name string) *cluster {
	cl := s.regions[region][name]
	if cl != nil && !cl.goneAt.IsZero() && !s.cfg.Now().Before(cl.goneAt) {
		delete(s.regions[region], name)
		return nil
	}
	return cl
}

// open locks the service and finds the call's cluster; unlock must be called
// in any case.
func (s *Service) open(c call) (cl *cluster, unlock func(), err error) {
	s.mu.Lock()
	name := c.PathValue("cluster")
	if cl = s.cluster(c.caller.Region, name); cl == nil {
		return nil, s.mu.Unlock, notFound("No cluster found for name: %s.", name)
	}
	return cl, s.mu.Unlock, nil
}

// settle brings a cluster to what it is by now. The caller holds the lock.
func (s *Service) settle(ctx context.Context, cl *cluster) string {
	switch {
	case !cl.goneAt.IsZero():
		return statusDeleting
	case cl.failed:
		return statusFailed
	case cl.view.Endpoint == "":
		return s.bringUp(ctx, cl)
	case cl.updating(s.cfg.Now()):
		return statusUpdating
	}
	return statusActive
}

func (s *Service) bringUp(ctx context.Context, cl *cluster) string {
	if s.cfg.Now().Before(cl.readyAt) {
		return statusCreating
	}
	endpoint, err := s.cfg.ControlPlanes.Endpoint(ctx, cl.region, cl.view.Name)
	switch {
	case errors.Is(err, ErrNotReady):
		return statusCreating
	case err != nil:
		s.cfg.Log.WarnContext(ctx, "cluster has no API server", "cluster", cl.view.Name, "error", err)
		cl.failed = true
		cl.view.Health.Issues = append(cl.view.Health.Issues, issue{Code: "InternalFailure", Message: err.Error()})
		return statusFailed
	}
	cl.view.Endpoint = endpoint.URL
	cl.view.CertificateAuthority = map[string]string{"data": base64.StdEncoding.EncodeToString(endpoint.CA)}
	cl.view.Identity = map[string]any{"oidc": map[string]string{
		"issuer": fmt.Sprintf("https://oidc.eks.%s.amazonaws.com/id/%X", cl.region, []byte(cl.view.Name)),
	}}
	return statusActive
}

func (s *Service) describe(ctx context.Context, cl *cluster) clusterView {
	status := s.settle(ctx, cl)
	view := cl.view
	view.Status = status
	return view
}

func (s *Service) describeCluster(c call, _ none) (any, error) {
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return map[string]any{"cluster": s.describe(c.Context(), cl)}, nil
}

func (s *Service) listClusters(c call, _ none) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.regions[c.caller.Region])) {
		if s.cluster(c.caller.Region, name) != nil {
			names = append(names, name)
		}
	}
	items, next, err := page(c, names)
	if err != nil {
		return nil, err
	}
	return map[string]any{"clusters": items, "nextToken": next}, nil
}

func (s *Service) deleteCluster(c call, _ none) (any, error) {
	cl, group, err := s.beginDelete(c)
	if err != nil {
		return nil, err
	}
	// At once, not at the end: whoever sees the cluster gone may delete the VPC.
	if err := s.cfg.Account.DeleteSecurityGroup(c.Context(), c.caller.Region, group); err != nil {
		s.cfg.Log.WarnContext(c.Context(), "cluster's security group stays", "group", group, "error", err)
	}
	return map[string]any{"cluster": cl}, nil
}

func (s *Service) beginDelete(c call) (clusterView, string, error) {
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return clusterView{}, "", err
	}
	now := s.cfg.Now()
	switch status := s.settle(c.Context(), cl); {
	case cl.view.DeletionProtection:
		return clusterView{}, "", invalidRequest("Cluster %s has deletion protection enabled. Disable it and try again.", cl.view.Name)
	case len(s.liveNodegroups(cl)) > 0:
		return clusterView{}, "", inUse("Cluster has nodegroups attached")
	case status == statusCreating || status == statusUpdating:
		return clusterView{}, "", inUse("Cannot delete because cluster %s currently has an update in progress", cl.view.Name)
	case status != statusDeleting:
		cl.goneAt = now.Add(s.cfg.Delay)
	}
	view := s.describe(c.Context(), cl)
	return view, view.VPC.ClusterSecurityGroupID, nil
}

func (s *Service) listFargateProfiles(c call, _ none) (any, error) {
	_, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return map[string]any{"fargateProfileNames": []string{}}, nil
}

func (s *Service) arn(region, resource string) string {
	return fmt.Sprintf("arn:aws:eks:%s:%s:%s", region, s.cfg.AccountID, resource)
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}
