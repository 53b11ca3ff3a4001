package eks

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

type scalingConfig struct {
	MinSize     *int `json:"minSize,omitempty"`
	MaxSize     *int `json:"maxSize,omitempty"`
	DesiredSize *int `json:"desiredSize,omitempty"`
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

type launchTemplate struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	ID      string `json:"id,omitempty"`
}

type nodegroupUpdateConfig struct {
	MaxUnavailable           *int   `json:"maxUnavailable,omitempty"`
	MaxUnavailablePercentage *int   `json:"maxUnavailablePercentage,omitempty"`
	UpdateStrategy           string `json:"updateStrategy,omitempty"`
}

type remoteAccess struct {
	SSHKey               string   `json:"ec2SshKey,omitempty"`
	SourceSecurityGroups []string `json:"sourceSecurityGroups,omitempty"`
}

type nodegroupView struct {
	Name           string                `json:"nodegroupName"`
	ARN            string                `json:"nodegroupArn"`
	ClusterName    string                `json:"clusterName"`
	Version        string                `json:"version"`
	ReleaseVersion string                `json:"releaseVersion"`
	CreatedAt      timestamp             `json:"createdAt"`
	ModifiedAt     timestamp             `json:"modifiedAt"`
	Status         string                `json:"status"`
	CapacityType   string                `json:"capacityType"`
	Scaling        scalingConfig         `json:"scalingConfig"`
	InstanceTypes  []string              `json:"instanceTypes,omitempty"`
	Subnets        []string              `json:"subnets"`
	RemoteAccess   *remoteAccess         `json:"remoteAccess,omitempty"`
	AMIType        string                `json:"amiType"`
	NodeRole       string                `json:"nodeRole"`
	Labels         map[string]string     `json:"labels"`
	Taints         []taint               `json:"taints"`
	Resources      nodegroupResources    `json:"resources"`
	DiskSize       *int                  `json:"diskSize,omitempty"`
	Health         health                `json:"health"`
	UpdateConfig   nodegroupUpdateConfig `json:"updateConfig"`
	NodeRepair     map[string]any        `json:"nodeRepairConfig,omitempty"`
	LaunchTemplate *launchTemplate       `json:"launchTemplate,omitempty"`
	Tags           map[string]string     `json:"tags"`
}

type nodegroupResources struct {
	AutoScalingGroups []map[string]string `json:"autoScalingGroups"`
}

type nodegroup struct {
	view    nodegroupView
	readyAt time.Time
	failAt  time.Time // when nodes that cannot become ready are given up
	goneAt  time.Time
	failed  bool
}

type createNodegroupInput struct {
	Name           string                 `json:"nodegroupName"`
	Scaling        *scalingConfig         `json:"scalingConfig"`
	DiskSize       *int                   `json:"diskSize"`
	Subnets        []string               `json:"subnets"`
	InstanceTypes  []string               `json:"instanceTypes"`
	AMIType        string                 `json:"amiType"`
	RemoteAccess   *remoteAccess          `json:"remoteAccess"`
	NodeRole       string                 `json:"nodeRole"`
	Labels         map[string]string      `json:"labels"`
	Taints         []taint                `json:"taints"`
	Tags           map[string]string      `json:"tags"`
	LaunchTemplate *launchTemplate        `json:"launchTemplate"`
	UpdateConfig   *nodegroupUpdateConfig `json:"updateConfig"`
	NodeRepair     map[string]any         `json:"nodeRepairConfig"`
	CapacityType   string                 `json:"capacityType"`
	Version        string                 `json:"version"`
	ReleaseVersion string                 `json:"releaseVersion"`
}

func (s *Service) createNodegroup(c call, in createNodegroupInput) (any, error) {
	custom, err := s.completeNodegroup(c, &in)
	if err != nil {
		return nil, err
	}
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if status := s.settle(c.Context(), cl); status != statusActive && status != statusUpdating {
		return nil, invalidRequest("Cluster '%s' is not in ACTIVE status", cl.view.Name)
	}
	if s.nodegroup(cl, in.Name) != nil {
		return nil, inUse("NodeGroup already exists with name %s and cluster name %s", in.Name, cl.view.Name)
	}
	if in.Version == "" {
		in.Version = cl.view.Version
	}
	release, ok := findRelease(in.Version)
	if lag := minor(cl.view.Version) - minor(in.Version); !ok || lag < 0 || lag > 3 {
		return nil, invalidParameter("Requested Nodegroup version %s does not fit cluster version %s", in.Version, cl.view.Version)
	}
	if in.AMIType == "" {
		in.AMIType = "AL2023_x86_64_STANDARD"
	}
	if custom {
		in.AMIType = "CUSTOM"
	}
	if in.ReleaseVersion == "" {
		in.ReleaseVersion = release.patch + "-20261110"
	}
	ng := s.newNodegroup(cl, in)
	return map[string]any{"nodegroup": s.describeGroup(cl, ng)}, nil
}

var amiTypes = []string{
	"AL2023_x86_64_STANDARD", "AL2023_ARM_64_STANDARD", "AL2023_x86_64_NEURON", "AL2023_x86_64_NVIDIA", "AL2023_ARM_64_NVIDIA",
	"BOTTLEROCKET_x86_64", "BOTTLEROCKET_ARM_64", "BOTTLEROCKET_x86_64_NVIDIA", "BOTTLEROCKET_ARM_64_NVIDIA", "CUSTOM",
	"AL2_x86_64", "AL2_x86_64_GPU", "AL2_ARM_64",
}

// completeNodegroup checks a request and fills in what AWS fills in. custom
// says that the launch template brings its own image.
func (s *Service) completeNodegroup(c call, in *createNodegroupInput) (custom bool, err error) {
	if !namePattern.MatchString(in.Name) || len(in.Name) > 63 {
		return false, invalidParameter("The nodegroup name is not valid")
	}
	if in.AMIType != "" && !slices.Contains(amiTypes, in.AMIType) {
		return false, invalidParameter("%s is not a valid AMI type", in.AMIType)
	}
	if in.CapacityType == "" {
		in.CapacityType = "ON_DEMAND"
	}
	if in.Scaling == nil {
		in.Scaling = &scalingConfig{MinSize: new(1), MaxSize: new(2), DesiredSize: new(2)}
	}
	if err := in.Scaling.check(); err != nil {
		return false, err
	}
	if in.UpdateConfig == nil {
		in.UpdateConfig = &nodegroupUpdateConfig{MaxUnavailable: new(1)}
	}
	if in.LaunchTemplate != nil {
		if custom, err = s.completeTemplate(c, in); err != nil {
			return false, err
		}
	} else {
		if in.DiskSize == nil {
			in.DiskSize = new(20)
		}
		if len(in.InstanceTypes) == 0 {
			in.InstanceTypes = []string{"t3.medium"}
		}
	}
	if len(in.Subnets) == 0 {
		return false, invalidParameter("subnets is required")
	}
	if _, err := s.cfg.Account.Subnets(c.Context(), c.caller.Region, in.Subnets); err != nil {
		if errors.Is(err, ErrNotFound) {
			return false, invalidParameter("One or more of the subnets does not exist: %v", err)
		}
		return false, fmt.Errorf("describe subnets: %w", err)
	}
	return custom, s.checkRole(c.Context(), in.NodeRole, "ec2.amazonaws.com")
}

func (in *scalingConfig) check() error {
	if in.MinSize == nil || in.MaxSize == nil || in.DesiredSize == nil {
		return invalidParameter("scalingConfig needs minSize, maxSize and desiredSize")
	}
	switch {
	case *in.MaxSize < 1 || *in.MinSize < 0:
		return invalidParameter("Minimum capacity must be at least 0 and maximum capacity at least 1")
	case *in.MinSize > *in.DesiredSize:
		return invalidParameter("Minimum capacity %d can't be greater than desired size %d", *in.MinSize, *in.DesiredSize)
	case *in.DesiredSize > *in.MaxSize:
		return invalidParameter("Desired capacity %d can't be greater than max size %d", *in.DesiredSize, *in.MaxSize)
	}
	return nil
}

func (s *Service) completeTemplate(c call, in *createNodegroupInput) (custom bool, err error) {
	if in.DiskSize != nil {
		return false, invalidParameter("Disk size must be specified within the launch template.")
	}
	if in.RemoteAccess != nil {
		return false, invalidParameter("Remote access configuration cannot be specified with a launch template.")
	}
	template, err := s.findTemplate(c, in.LaunchTemplate)
	if err != nil {
		return false, err
	}
	if template.HasInstance && len(in.InstanceTypes) > 0 {
		return false, invalidParameter("Cannot specify instance types in launch template and API request")
	}
	if !template.HasInstance && len(in.InstanceTypes) == 0 {
		in.InstanceTypes = []string{"t3.medium"}
	}
	return template.HasImage, nil
}

// findTemplate completes a reference to a launch template.
func (s *Service) findTemplate(c call, ref *launchTemplate) (Template, error) {
	if (ref.ID == "") == (ref.Name == "") {
		return Template{}, invalidParameter("Either launch template ID or launch template name must be specified, but not both")
	}
	template, err := s.cfg.Account.LaunchTemplate(c.Context(), c.caller.Region, ref.ID, ref.Name)
	if errors.Is(err, ErrNotFound) {
		return Template{}, invalidRequest("Launch template details can't be found: %v", err)
	}
	if err != nil {
		return Template{}, fmt.Errorf("describe launch template: %w", err)
	}
	ref.ID, ref.Name = template.ID, template.Name
	if ref.Version == "" {
		ref.Version = "1"
	}
	return template, nil
}

// newNodegroup adds a node group, and the access entry that AWS makes for its
// role. The caller holds the lock.
func (s *Service) newNodegroup(cl *cluster, in createNodegroupInput) *nodegroup {
	now := s.cfg.Now()
	id := s.newID()
	ng := &nodegroup{
		view: nodegroupView{
			Name: in.Name, ARN: s.arn(cl.region, "nodegroup/"+cl.view.Name+"/"+in.Name+"/"+id), ClusterName: cl.view.Name,
			Version: in.Version, ReleaseVersion: in.ReleaseVersion, CreatedAt: timestamp(now), ModifiedAt: timestamp(now),
			CapacityType: in.CapacityType, Scaling: *in.Scaling, InstanceTypes: in.InstanceTypes, Subnets: in.Subnets,
			RemoteAccess: in.RemoteAccess, AMIType: in.AMIType, NodeRole: in.NodeRole, Labels: orEmpty(in.Labels),
			Taints: append([]taint{}, in.Taints...), DiskSize: in.DiskSize, Health: health{Issues: []issue{}},
			Resources:    nodegroupResources{AutoScalingGroups: []map[string]string{{"name": "eks-" + in.Name + "-" + id}}},
			UpdateConfig: *in.UpdateConfig, NodeRepair: in.NodeRepair, LaunchTemplate: in.LaunchTemplate, Tags: orEmpty(in.Tags),
		},
		readyAt: now.Add(s.cfg.Delay),
		failAt:  now.Add(s.cfg.Delay).Add(s.cfg.NodeJoinTimeout),
	}
	cl.nodegroups[in.Name] = ng
	if cl.view.AccessConfig.AuthenticationMode != modeConfigMap && cl.entries[in.NodeRole] == nil {
		s.addEntry(cl, in.NodeRole, typeLinux, nil, "", nil)
	}
	return ng
}

// nodegroup finds one that is not gone. The caller holds the lock.
func (s *Service) nodegroup(cl *cluster, name string) *nodegroup {
	ng := cl.nodegroups[name]
	if ng != nil && !ng.goneAt.IsZero() && !s.cfg.Now().Before(ng.goneAt) {
		delete(cl.nodegroups, name)
		return nil
	}
	return ng
}

func (s *Service) liveNodegroups(cl *cluster) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(cl.nodegroups)) {
		if s.nodegroup(cl, name) != nil {
			names = append(names, name)
		}
	}
	return names
}

// settleNodegroup brings a node group to what it is by now: nodes become
// ready only with a network plugin. The caller holds the lock.
func (s *Service) settleNodegroup(cl *cluster, ng *nodegroup) string {
	now := s.cfg.Now()
	switch {
	case !ng.goneAt.IsZero():
		return statusDeleting
	case ng.failed:
		return statusCreateFailed
	case now.Before(ng.readyAt):
		return statusCreating
	case !cl.selfManagedAddons && s.addon(cl, networkAddon) == nil && *ng.view.Scaling.DesiredSize > 0 && !ng.failAt.IsZero():
		if now.Before(ng.failAt) {
			return statusCreating
		}
		ng.failed = true
		ng.view.Health.Issues = append(ng.view.Health.Issues, issue{
			Code: "NodeCreationFailure", Message: "Unhealthy nodes in the kubernetes cluster: container runtime network not ready: cni plugin not initialized",
		})
		return statusCreateFailed
	case cl.updatingPart(now, ng.view.Name, ""):
		return statusUpdating
	}
	ng.failAt = time.Time{} // nodes that became ready stay so
	return statusActive
}

func (s *Service) describeGroup(cl *cluster, ng *nodegroup) nodegroupView {
	status := s.settleNodegroup(cl, ng)
	view := ng.view
	view.Status = status
	return view
}

// openNodegroup is open for calls about a node group.
func (s *Service) openNodegroup(c call) (*cluster, *nodegroup, func(), error) {
	cl, unlock, err := s.open(c)
	if err != nil {
		return nil, nil, unlock, err
	}
	ng := s.nodegroup(cl, c.PathValue("nodegroup"))
	if ng == nil {
		return nil, nil, unlock, notFound("No node group found for name: %s.", c.PathValue("nodegroup"))
	}
	return cl, ng, unlock, nil
}

func (s *Service) describeNodegroup(c call, _ none) (any, error) {
	cl, ng, unlock, err := s.openNodegroup(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return map[string]any{"nodegroup": s.describeGroup(cl, ng)}, nil
}

func (s *Service) listNodegroups(c call, _ none) (any, error) {
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	items, next, err := page(c, s.liveNodegroups(cl))
	if err != nil {
		return nil, err
	}
	return map[string]any{"nodegroups": items, "nextToken": next}, nil
}

func (s *Service) deleteNodegroup(c call, _ none) (any, error) {
	cl, ng, unlock, err := s.openNodegroup(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	switch s.settleNodegroup(cl, ng) {
	case statusCreating, statusUpdating:
		return nil, inUse("Nodegroup %s is currently being created or updated", ng.view.Name)
	case statusDeleting:
	default:
		ng.goneAt = s.cfg.Now().Add(s.cfg.Delay)
	}
	return map[string]any{"nodegroup": s.describeGroup(cl, ng)}, nil
}

type updateNodegroupConfigInput struct {
	Labels *struct {
		AddOrUpdate map[string]string `json:"addOrUpdateLabels"`
		Remove      []string          `json:"removeLabels"`
	} `json:"labels"`
	Taints *struct {
		AddOrUpdate []taint `json:"addOrUpdateTaints"`
		Remove      []taint `json:"removeTaints"`
	} `json:"taints"`
	Scaling      *scalingConfig         `json:"scalingConfig"`
	UpdateConfig *nodegroupUpdateConfig `json:"updateConfig"`
	NodeRepair   map[string]any         `json:"nodeRepairConfig"`
}

func (s *Service) updateNodegroupConfig(c call, in updateNodegroupConfigInput) (any, error) {
	cl, ng, unlock, err := s.openNodegroup(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if status := s.settleNodegroup(cl, ng); status != statusActive {
		return nil, inUse("Nodegroup %s is in status %s", ng.view.Name, status)
	}
	if in.Scaling != nil {
		old := ng.view.Scaling
		next := scalingConfig{
			MinSize:     cmp.Or(in.Scaling.MinSize, old.MinSize),
			MaxSize:     cmp.Or(in.Scaling.MaxSize, old.MaxSize),
			DesiredSize: cmp.Or(in.Scaling.DesiredSize, old.DesiredSize),
		}
		if err := next.check(); err != nil {
			return nil, err
		}
		ng.view.Scaling = next
	}
	if in.Labels != nil {
		labels := maps.Clone(ng.view.Labels)
		maps.Copy(labels, in.Labels.AddOrUpdate)
		for _, key := range in.Labels.Remove {
			delete(labels, key)
		}
		ng.view.Labels = labels
	}
	if in.Taints != nil {
		dropped := append(slices.Clone(in.Taints.Remove), in.Taints.AddOrUpdate...)
		taints := slices.DeleteFunc(slices.Clone(ng.view.Taints), func(t taint) bool {
			return slices.ContainsFunc(dropped, func(d taint) bool { return d.Key == t.Key && d.Effect == t.Effect })
		})
		ng.view.Taints = append(taints, in.Taints.AddOrUpdate...)
	}
	if in.UpdateConfig != nil {
		ng.view.UpdateConfig = *in.UpdateConfig
	}
	if in.NodeRepair != nil {
		ng.view.NodeRepair = in.NodeRepair
	}
	ng.view.ModifiedAt = timestamp(s.cfg.Now())
	return s.startUpdate(cl, "ConfigUpdate", ng.view.Name, "", param("DesiredSize", ng.view.Scaling)), nil
}

func (s *Service) updateNodegroupVersion(c call, in updateVersionInput) (any, error) {
	if in.LaunchTemplate != nil {
		if _, err := s.findTemplate(c, in.LaunchTemplate); err != nil {
			return nil, err
		}
	}
	cl, ng, unlock, err := s.openNodegroup(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if status := s.settleNodegroup(cl, ng); status != statusActive {
		return nil, inUse("Nodegroup %s is in status %s", ng.view.Name, status)
	}
	if in.LaunchTemplate != nil {
		if ng.view.LaunchTemplate == nil {
			return nil, invalidRequest("Node group was not created with a launch template")
		}
		ng.view.LaunchTemplate = in.LaunchTemplate
	}
	if in.Version == "" && in.LaunchTemplate == nil {
		in.Version = cl.view.Version
	}
	if in.Version != "" {
		release, ok := findRelease(in.Version)
		if !ok || minor(in.Version) > minor(cl.view.Version) {
			return nil, invalidParameter("Requested Nodegroup version %s does not fit cluster version %s", in.Version, cl.view.Version)
		}
		ng.view.Version, ng.view.ReleaseVersion = in.Version, release.patch+"-20261110"
	}
	if in.ReleaseVersion != "" {
		ng.view.ReleaseVersion = in.ReleaseVersion
	}
	ng.view.ModifiedAt = timestamp(s.cfg.Now())
	return s.startUpdate(cl, "VersionUpdate", ng.view.Name, "", param("Version", ng.view.Version), param("ReleaseVersion", ng.view.ReleaseVersion)), nil
}
