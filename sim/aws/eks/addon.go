package eks

import (
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/yaml"
)

// networkAddon is the one without which nodes do not become ready.
const networkAddon = "vpc-cni"

// addonKind is an add-on that EKS offers.
type addonKind struct {
	name       string
	kind       string
	namespace  string
	needsNodes bool // runs as a Deployment: not healthy before there are nodes
	versions   map[string]string
	latest     string // for versions that the map does not name
}

// addonKinds are the offered add-ons. Version strings have EKS's form; which
// build is offered for which cluster matters to nobody here.
var addonKinds = []addonKind{
	{name: networkAddon, kind: "networking", namespace: "kube-system", latest: "v1.21.1-eksbuild.1"},
	{name: "kube-proxy", kind: "networking", namespace: "kube-system", versions: map[string]string{
		"1.31": "v1.31.14-eksbuild.2", "1.32": "v1.32.11-eksbuild.2", "1.33": "v1.33.7-eksbuild.2",
		"1.34": "v1.34.3-eksbuild.2", "1.35": "v1.35.2-eksbuild.2", "1.36": "v1.36.1-eksbuild.2",
	}},
	{name: "coredns", kind: "networking", namespace: "kube-system", needsNodes: true, latest: "v1.13.2-eksbuild.1"},
	{name: "aws-ebs-csi-driver", kind: "storage", namespace: "kube-system", needsNodes: true, latest: "v1.54.0-eksbuild.1"},
	{name: "eks-pod-identity-agent", kind: "security", namespace: "kube-system", latest: "v1.3.10-eksbuild.1"},
	{name: "metrics-server", kind: "observability", namespace: "kube-system", needsNodes: true, latest: "v0.8.1-eksbuild.1"},
	{name: "snapshot-controller", kind: "storage", namespace: "kube-system", needsNodes: true, latest: "v8.4.0-eksbuild.1"},
	{name: "aws-efs-csi-driver", kind: "storage", namespace: "kube-system", needsNodes: true, latest: "v2.2.0-eksbuild.1"},
}

func findAddonKind(name string) (addonKind, bool) {
	i := slices.IndexFunc(addonKinds, func(k addonKind) bool { return k.name == name })
	if i < 0 {
		return addonKind{}, false
	}
	return addonKinds[i], true
}

// offered lists an add-on's versions for a cluster version, newest first. The
// older one is the default, as it mostly is at AWS.
func (k addonKind) offered(clusterVersion string) (newest, byDefault string) {
	newest = k.latest
	if v, ok := k.versions[clusterVersion]; ok {
		newest = v
	}
	base := newest[:len(newest)-1]
	return base + "9", newest
}

type addonView struct {
	Name                   string            `json:"addonName"`
	ClusterName            string            `json:"clusterName"`
	Status                 string            `json:"status"`
	Version                string            `json:"addonVersion"`
	Health                 health            `json:"health"`
	ARN                    string            `json:"addonArn"`
	CreatedAt              timestamp         `json:"createdAt"`
	ModifiedAt             timestamp         `json:"modifiedAt"`
	ServiceAccountRoleARN  string            `json:"serviceAccountRoleArn,omitempty"`
	Tags                   map[string]string `json:"tags"`
	ConfigurationValues    string            `json:"configurationValues,omitempty"`
	PodIdentityAssociation []string          `json:"podIdentityAssociations,omitempty"`
}

type addon struct {
	view    addonView
	readyAt time.Time
	goneAt  time.Time
}

type addonPodIdentity struct {
	ServiceAccount string `json:"serviceAccount"`
	RoleARN        string `json:"roleArn"`
}

type addonInput struct {
	Name                  string              `json:"addonName"`
	Version               string              `json:"addonVersion"`
	ServiceAccountRoleARN *string             `json:"serviceAccountRoleArn"`
	ResolveConflicts      string              `json:"resolveConflicts"`
	Tags                  map[string]string   `json:"tags"`
	ConfigurationValues   *string             `json:"configurationValues"`
	PodIdentities         *[]addonPodIdentity `json:"podIdentityAssociations"`
}

// check applies the rules that creation and update share.
func (in *addonInput) check(name, clusterVersion string) error {
	kind, ok := findAddonKind(name)
	if !ok {
		return invalidParameter("Addon %s specified is not supported", name)
	}
	newest, byDefault := kind.offered(clusterVersion)
	if in.Version == "" {
		in.Version = byDefault
	}
	if in.Version != newest && in.Version != byDefault {
		return invalidParameter("Addon version specified is not supported: %s %s with Kubernetes %s", name, in.Version, clusterVersion)
	}
	if in.ResolveConflicts != "" && !slices.Contains([]string{"NONE", "OVERWRITE", "PRESERVE"}, in.ResolveConflicts) {
		return invalidParameter("resolveConflicts %s is not valid", in.ResolveConflicts)
	}
	if in.ConfigurationValues != nil {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(*in.ConfigurationValues), &values); err != nil {
			return invalidParameter("ConfigurationValue provided in request is not supported: it is neither JSON nor YAML")
		}
	}
	return nil
}

func (s *Service) createAddon(c call, in addonInput) (any, error) {
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if status := s.settle(c.Context(), cl); status != statusActive && status != statusUpdating {
		return nil, invalidRequest("Cluster %s is not in ACTIVE status", cl.view.Name)
	}
	if err := in.check(in.Name, cl.view.Version); err != nil {
		return nil, err
	}
	if s.addon(cl, in.Name) != nil {
		return nil, inUse("Addon already exists.")
	}
	now := s.cfg.Now()
	a := &addon{
		view: addonView{
			Name: in.Name, ClusterName: cl.view.Name, Version: in.Version, Health: health{Issues: []issue{}},
			ARN:       s.arn(cl.region, "addon/"+cl.view.Name+"/"+in.Name+"/"+s.newID()),
			CreatedAt: timestamp(now), ModifiedAt: timestamp(now), Tags: orEmpty(in.Tags),
		},
		readyAt: now.Add(s.cfg.Delay),
	}
	s.applyAddon(cl, a, in)
	cl.addons[in.Name] = a
	return map[string]any{"addon": s.describeOne(cl, a)}, nil
}

// applyAddon sets what a request names. The caller holds the lock.
func (s *Service) applyAddon(cl *cluster, a *addon, in addonInput) {
	a.view.Version = in.Version
	if in.ServiceAccountRoleARN != nil {
		a.view.ServiceAccountRoleARN = *in.ServiceAccountRoleARN
	}
	if in.ConfigurationValues != nil {
		a.view.ConfigurationValues = *in.ConfigurationValues
	}
	if in.PodIdentities == nil {
		return
	}
	s.dropOwned(cl, a)
	kind, _ := findAddonKind(a.view.Name)
	for _, p := range *in.PodIdentities {
		identity := s.addPodIdentity(cl, podIdentity{
			Namespace: kind.namespace, ServiceAccount: p.ServiceAccount, RoleARN: p.RoleARN, OwnerARN: a.view.ARN,
		})
		a.view.PodIdentityAssociation = append(a.view.PodIdentityAssociation, identity.ARN)
	}
}

// dropOwned removes the pod identities that belong to an add-on.
func (s *Service) dropOwned(cl *cluster, a *addon) {
	maps.DeleteFunc(cl.identities, func(_ string, p *podIdentity) bool { return p.OwnerARN == a.view.ARN })
	a.view.PodIdentityAssociation = nil
}

// addon finds one that is not gone. The caller holds the lock.
func (s *Service) addon(cl *cluster, name string) *addon {
	a := cl.addons[name]
	if a != nil && !a.goneAt.IsZero() && !s.cfg.Now().Before(a.goneAt) {
		delete(cl.addons, name)
		return nil
	}
	return a
}

// describeOne brings an add-on to what it is by now. The caller holds the lock.
func (s *Service) describeOne(cl *cluster, a *addon) addonView {
	now := s.cfg.Now()
	view := a.view
	kind, _ := findAddonKind(view.Name)
	switch {
	case !a.goneAt.IsZero():
		view.Status = statusDeleting
	case now.Before(a.readyAt):
		view.Status = statusCreating
	case cl.updatingPart(now, "", view.Name):
		view.Status = statusUpdating
	case kind.needsNodes && !s.hasNodes(cl):
		view.Status = statusDegraded
		view.Health = health{Issues: []issue{{
			Code:    "InsufficientNumberOfReplicas",
			Message: "The add-on is unhealthy because all deployments have all pods unscheduled no nodes available to schedule pods",
		}}}
	default:
		view.Status = statusActive
	}
	return view
}

func (s *Service) hasNodes(cl *cluster) bool {
	if cl.view.Compute != nil && cl.view.Compute.Enabled != nil && *cl.view.Compute.Enabled {
		return true
	}
	return slices.ContainsFunc(s.liveNodegroups(cl), func(name string) bool {
		ng := cl.nodegroups[name]
		status := s.settleNodegroup(cl, ng)
		return (status == statusActive || status == statusUpdating) && *ng.view.Scaling.DesiredSize > 0
	})
}

// openAddon is open for calls about an add-on.
func (s *Service) openAddon(c call) (*cluster, *addon, func(), error) {
	cl, unlock, err := s.open(c)
	if err != nil {
		return nil, nil, unlock, err
	}
	a := s.addon(cl, c.PathValue("addon"))
	if a == nil {
		return nil, nil, unlock, notFound("No addon: %s found in cluster: %s", c.PathValue("addon"), cl.view.Name)
	}
	return cl, a, unlock, nil
}

func (s *Service) describeAddon(c call, _ none) (any, error) {
	cl, a, unlock, err := s.openAddon(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return map[string]any{"addon": s.describeOne(cl, a)}, nil
}

func (s *Service) listAddons(c call, _ none) (any, error) {
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(cl.addons)) {
		if s.addon(cl, name) != nil {
			names = append(names, name)
		}
	}
	items, next, err := page(c, names)
	if err != nil {
		return nil, err
	}
	return map[string]any{"addons": items, "nextToken": next}, nil
}

func (s *Service) updateAddon(c call, in addonInput) (any, error) {
	cl, a, unlock, err := s.openAddon(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if status := s.describeOne(cl, a).Status; status != statusActive && status != statusDegraded {
		return nil, inUse("Addon %s is in status %s", a.view.Name, status)
	}
	if in.Version == "" {
		in.Version = a.view.Version
	}
	if err := in.check(a.view.Name, cl.view.Version); err != nil {
		return nil, err
	}
	s.applyAddon(cl, a, in)
	a.view.ModifiedAt = timestamp(s.cfg.Now())
	return s.startUpdate(cl, "AddonUpdate", "", a.view.Name, param("AddonVersion", in.Version), param("ResolveConflicts", in.ResolveConflicts)), nil
}

func (s *Service) deleteAddon(c call, _ none) (any, error) {
	cl, a, unlock, err := s.openAddon(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if a.goneAt.IsZero() {
		a.goneAt = s.cfg.Now().Add(s.cfg.Delay)
		s.dropOwned(cl, a)
	}
	return map[string]any{"addon": s.describeOne(cl, a)}, nil
}

type compatibility struct {
	ClusterVersion   string   `json:"clusterVersion"`
	PlatformVersions []string `json:"platformVersions"`
	DefaultVersion   bool     `json:"defaultVersion"`
}

type addonVersion struct {
	Version       string          `json:"addonVersion"`
	Architecture  []string        `json:"architecture"`
	ComputeTypes  []string        `json:"computeTypes"`
	Compatibility []compatibility `json:"compatibilities"`
}

func (s *Service) describeAddonVersions(c call, _ none) (any, error) {
	query := c.URL.Query()
	out := []map[string]any{}
	for _, kind := range addonKinds {
		if asked := query.Get("addonName"); asked != "" && asked != kind.name {
			continue
		}
		versions := kind.catalogue(query.Get("kubernetesVersion"))
		if len(versions) == 0 {
			continue
		}
		out = append(out, map[string]any{
			"addonName": kind.name, "type": kind.kind, "publisher": "eks", "owner": "aws",
			"defaultNamespace": kind.namespace, "addonVersions": versions,
		})
	}
	return map[string]any{"addons": out}, nil
}

// catalogue lists an add-on's versions, newest first, with the cluster
// versions that each is for.
func (k addonKind) catalogue(clusterVersion string) []addonVersion {
	var out []addonVersion
	add := func(version, cluster string, byDefault bool) {
		i := slices.IndexFunc(out, func(v addonVersion) bool { return v.Version == version })
		if i < 0 {
			i = len(out)
			out = append(out, addonVersion{Version: version, Architecture: []string{"amd64", "arm64"}, ComputeTypes: []string{"ec2", "hybrid"}})
		}
		out[i].Compatibility = append(out[i].Compatibility,
			compatibility{ClusterVersion: cluster, PlatformVersions: []string{"*"}, DefaultVersion: byDefault})
	}
	for _, r := range releases {
		if clusterVersion != "" && clusterVersion != r.version {
			continue
		}
		newest, byDefault := k.offered(r.version)
		add(newest, r.version, false)
		add(byDefault, r.version, true)
	}
	return out
}
