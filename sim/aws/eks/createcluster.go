package eks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

type createClusterInput struct {
	Name                       string             `json:"name"`
	Version                    string             `json:"version"`
	RoleARN                    string             `json:"roleArn"`
	VPC                        vpcConfig          `json:"resourcesVpcConfig"`
	Network                    networkConfig      `json:"kubernetesNetworkConfig"`
	Logging                    logging            `json:"logging"`
	Tags                       map[string]string  `json:"tags"`
	EncryptionConfig           []encryptionConfig `json:"encryptionConfig"`
	AccessConfig               accessConfig       `json:"accessConfig"`
	BootstrapSelfManagedAddons *bool              `json:"bootstrapSelfManagedAddons"`
	UpgradePolicy              upgradePolicy      `json:"upgradePolicy"`
	ZonalShift                 *toggle            `json:"zonalShiftConfig"`
	Compute                    *computeConfig     `json:"computeConfig"`
	Storage                    *storageConfig     `json:"storageConfig"`
	DeletionProtection         bool               `json:"deletionProtection"`
}

func (s *Service) createCluster(c call, in createClusterInput) (any, error) {
	if err := in.complete(); err != nil {
		return nil, err
	}
	vpcID, err := s.checkSubnets(c.Context(), c.caller.Region, in.VPC.SubnetIDs)
	if err != nil {
		return nil, err
	}
	if err := s.checkRole(c.Context(), in.RoleARN, "eks.amazonaws.com"); err != nil {
		return nil, err
	}
	in.VPC.VPCID = vpcID

	s.mu.Lock()
	if s.cluster(c.caller.Region, in.Name) != nil {
		s.mu.Unlock()
		return nil, inUse("Cluster already exists with name: %s", in.Name)
	}
	cl := s.newCluster(c, in)
	s.mu.Unlock()

	// Not under the lock: the emulator takes its time. The name is taken already.
	group, err := s.cfg.Account.CreateSecurityGroup(c.Context(), c.caller.Region, vpcID, in.Name)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.regions[c.caller.Region], in.Name)
		return nil, fmt.Errorf("create the cluster's security group: %w", err)
	}
	cl.view.VPC.ClusterSecurityGroupID = group
	return map[string]any{"cluster": s.describe(c.Context(), cl)}, nil
}

// complete checks a request and fills in what AWS fills in.
func (in *createClusterInput) complete() error {
	if !namePattern.MatchString(in.Name) {
		return invalidParameter("The name of a cluster must begin with a letter or digit and have at most 100 letters, digits, hyphens and underscores")
	}
	if in.Version == "" {
		in.Version = defaultVersion
	}
	if _, ok := findRelease(in.Version); !ok {
		return invalidParameter("unsupported Kubernetes version %s", in.Version)
	}
	if err := in.VPC.complete(); err != nil {
		return err
	}
	if err := in.Network.complete(); err != nil {
		return err
	}
	if err := in.Logging.complete(); err != nil {
		return err
	}
	if in.AccessConfig.AuthenticationMode == "" {
		in.AccessConfig.AuthenticationMode = modeConfigMap
	}
	if !slices.Contains(modes, in.AccessConfig.AuthenticationMode) {
		return invalidParameter("Unsupported authentication mode %s", in.AccessConfig.AuthenticationMode)
	}
	if in.AccessConfig.BootstrapAdmin == nil {
		in.AccessConfig.BootstrapAdmin = new(true)
	}
	if in.UpgradePolicy.SupportType == "" {
		in.UpgradePolicy.SupportType = "EXTENDED"
	}
	if in.BootstrapSelfManagedAddons == nil {
		in.BootstrapSelfManagedAddons = new(true)
	}
	return nil
}

func (v *vpcConfig) complete() error {
	if len(v.SubnetIDs) == 0 {
		return invalidParameter("subnetIds is required")
	}
	if v.EndpointPublicAccess == nil {
		v.EndpointPublicAccess = new(true)
	}
	if v.EndpointPrivateAccess == nil {
		v.EndpointPrivateAccess = new(false)
	}
	if !*v.EndpointPublicAccess && !*v.EndpointPrivateAccess {
		return invalidParameter("Private and public endpoint access cannot be false")
	}
	if len(v.PublicAccessCIDRs) == 0 && *v.EndpointPublicAccess {
		v.PublicAccessCIDRs = []string{"0.0.0.0/0"}
	}
	if err := checkCIDRs(v.PublicAccessCIDRs); err != nil {
		return err
	}
	if v.SecurityGroupIDs == nil {
		v.SecurityGroupIDs = []string{}
	}
	if v.PublicAccessCIDRs == nil {
		v.PublicAccessCIDRs = []string{}
	}
	return nil
}

func checkCIDRs(cidrs []string) error {
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil || prefix.Masked() != prefix {
			return invalidParameter("The following CIDRs are invalid in publicAccessCidrs: [%s]", cidr)
		}
	}
	return nil
}

func (n *networkConfig) complete() error {
	if n.IPFamily == "" {
		n.IPFamily = "ipv4"
	}
	if n.ServiceIPv4CIDR == "" {
		n.ServiceIPv4CIDR = "172.20.0.0/16"
	}
	prefix, err := netip.ParsePrefix(n.ServiceIPv4CIDR)
	if err != nil || prefix.Masked() != prefix || !prefix.Addr().IsPrivate() || prefix.Bits() < 12 || prefix.Bits() > 24 {
		return invalidParameter("serviceIpv4Cidr %s is not a private block between /24 and /12", n.ServiceIPv4CIDR)
	}
	if n.ElasticLoadBalancing == nil {
		n.ElasticLoadBalancing = &toggle{Enabled: new(false)}
	}
	return nil
}

var logTypes = []string{"api", "audit", "authenticator", "controllerManager", "scheduler"}

// complete turns any request into AWS's form: enabled types, then the others.
func (l *logging) complete() error {
	on := map[string]bool{}
	for _, setup := range l.ClusterLogging {
		for _, t := range setup.Types {
			if !slices.Contains(logTypes, t) {
				return invalidParameter("Invalid log type %s", t)
			}
			on[t] = setup.Enabled != nil && *setup.Enabled
		}
	}
	var enabled, disabled []string
	for _, t := range logTypes {
		if on[t] {
			enabled = append(enabled, t)
		} else {
			disabled = append(disabled, t)
		}
	}
	l.ClusterLogging = nil
	if len(enabled) > 0 {
		l.ClusterLogging = append(l.ClusterLogging, logSetup{Types: enabled, Enabled: new(true)})
	}
	if len(disabled) > 0 {
		l.ClusterLogging = append(l.ClusterLogging, logSetup{Types: disabled, Enabled: new(false)})
	}
	return nil
}

// checkSubnets returns the VPC of a cluster's subnets.
func (s *Service) checkSubnets(ctx context.Context, region string, ids []string) (string, error) {
	subnets, err := s.cfg.Account.Subnets(ctx, region, ids)
	if errors.Is(err, ErrNotFound) {
		return "", invalidParameter("One or more of the subnets does not exist (Service: Ec2, Status Code: 400, Error Code: InvalidSubnetID.NotFound): %v", err)
	}
	if err != nil {
		return "", fmt.Errorf("describe subnets: %w", err)
	}
	zones, vpcs := map[string]bool{}, map[string]bool{}
	for _, subnet := range subnets {
		zones[subnet.Zone] = true
		vpcs[subnet.VPCID] = true
	}
	if len(vpcs) != 1 {
		return "", invalidParameter("Subnets specified must be in the same VPC")
	}
	if len(zones) < 2 {
		return "", invalidParameter("Subnets specified must be in at least two different AZs")
	}
	return subnets[0].VPCID, nil
}

func (s *Service) checkRole(ctx context.Context, arn, service string) error {
	ok, err := s.cfg.Account.RoleTrusts(ctx, arn, service)
	if err != nil {
		return fmt.Errorf("look up role: %w", err)
	}
	if !ok {
		return invalidParameter("Role with arn: %s, could not be assumed because it does not exist or the trusted entity is not correct", arn)
	}
	return nil
}

// newCluster adds a cluster. The caller holds the lock.
func (s *Service) newCluster(c call, in createClusterInput) *cluster {
	now := s.cfg.Now()
	cl := &cluster{
		view: clusterView{
			Name: in.Name, ARN: s.arn(c.caller.Region, "cluster/"+in.Name), CreatedAt: timestamp(now), Version: in.Version,
			RoleARN: in.RoleARN, VPC: in.VPC, Network: in.Network, Logging: in.Logging, Tags: orEmpty(in.Tags),
			PlatformVersion: platformVersion, EncryptionConfig: in.EncryptionConfig, Health: health{Issues: []issue{}},
			AccessConfig:  accessConfig{AuthenticationMode: in.AccessConfig.AuthenticationMode, BootstrapAdmin: in.AccessConfig.BootstrapAdmin},
			UpgradePolicy: in.UpgradePolicy, ZonalShift: in.ZonalShift, Compute: in.Compute, Storage: in.Storage,
			DeletionProtection: in.DeletionProtection,
		},
		region:            c.caller.Region,
		readyAt:           now.Add(s.cfg.Delay),
		selfManagedAddons: *in.BootstrapSelfManagedAddons,
		nodegroups:        map[string]*nodegroup{},
		addons:            map[string]*addon{},
		entries:           map[string]*entry{},
		identities:        map[string]*podIdentity{},
	}
	if *in.AccessConfig.BootstrapAdmin && in.AccessConfig.AuthenticationMode != modeConfigMap {
		s.addCreator(cl, c.caller.PrincipalARN)
	}
	if s.regions[c.caller.Region] == nil {
		s.regions[c.caller.Region] = map[string]*cluster{}
	}
	s.regions[c.caller.Region][in.Name] = cl
	return cl
}
