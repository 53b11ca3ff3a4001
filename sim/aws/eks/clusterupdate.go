package eks

import (
	"reflect"
	"slices"
)

type updateClusterConfigInput struct {
	VPC                *vpcConfig     `json:"resourcesVpcConfig"`
	Logging            *logging       `json:"logging"`
	AccessConfig       *accessConfig  `json:"accessConfig"`
	UpgradePolicy      *upgradePolicy `json:"upgradePolicy"`
	ZonalShift         *toggle        `json:"zonalShiftConfig"`
	Compute            *computeConfig `json:"computeConfig"`
	Network            *networkConfig `json:"kubernetesNetworkConfig"`
	Storage            *storageConfig `json:"storageConfig"`
	DeletionProtection *bool          `json:"deletionProtection"`
}

// groups counts the kinds of change in a request, of which there may be one.
// Auto Mode's three settings go together.
func (in *updateClusterConfigInput) groups() int {
	n := 0
	for _, set := range []bool{
		in.VPC != nil, in.Logging != nil, in.AccessConfig != nil, in.UpgradePolicy != nil, in.ZonalShift != nil,
		in.Compute != nil || in.Network != nil || in.Storage != nil, in.DeletionProtection != nil,
	} {
		if set {
			n++
		}
	}
	return n
}

func (s *Service) updateClusterConfig(c call, in updateClusterConfigInput) (any, error) {
	if in.groups() != 1 {
		return nil, invalidParameter("Exactly one type of update is allowed")
	}
	if in.VPC != nil && len(in.VPC.SubnetIDs) > 0 {
		if _, err := s.checkSubnets(c.Context(), c.caller.Region, in.VPC.SubnetIDs); err != nil {
			return nil, err
		}
	}
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if err := s.mayUpdate(c, cl); err != nil {
		return nil, err
	}
	next := cl.view
	kind, params, err := in.apply(&next)
	if err != nil {
		return nil, err
	}
	if reflect.DeepEqual(next, cl.view) {
		return nil, invalidParameter("Cluster is already at the desired configuration")
	}
	cl.view = next
	return s.startUpdate(cl, kind, "", "", params...), nil
}

// mayUpdate refuses a change of a cluster that is not at rest. The caller holds the lock.
func (s *Service) mayUpdate(c call, cl *cluster) error {
	if status := s.settle(c.Context(), cl); status != statusActive {
		return inUse("Cannot perform operation on cluster %s in status %s", cl.view.Name, status)
	}
	return nil
}

func (in *updateClusterConfigInput) apply(v *clusterView) (string, []updateParam, error) {
	switch {
	case in.VPC != nil:
		return in.VPC.apply(v)
	case in.Logging != nil:
		merged := logging{ClusterLogging: append(slices.Clone(v.Logging.ClusterLogging), in.Logging.ClusterLogging...)}
		if err := merged.complete(); err != nil {
			return "", nil, err
		}
		v.Logging = merged
		return "LoggingUpdate", []updateParam{param("ClusterLogging", merged)}, nil
	case in.AccessConfig != nil:
		from, to := slices.Index(modes, v.AccessConfig.AuthenticationMode), slices.Index(modes, in.AccessConfig.AuthenticationMode)
		if to < 0 || to < from || to > from+1 {
			return "", nil, invalidParameter("Unsupported authentication mode update from %s to %s",
				v.AccessConfig.AuthenticationMode, in.AccessConfig.AuthenticationMode)
		}
		v.AccessConfig.AuthenticationMode = in.AccessConfig.AuthenticationMode
		return "AccessConfigUpdate", []updateParam{param("AuthenticationMode", in.AccessConfig.AuthenticationMode)}, nil
	case in.UpgradePolicy != nil:
		if !slices.Contains([]string{"STANDARD", "EXTENDED"}, in.UpgradePolicy.SupportType) {
			return "", nil, invalidParameter("Unsupported support type %s", in.UpgradePolicy.SupportType)
		}
		v.UpgradePolicy = *in.UpgradePolicy
		return "UpgradePolicyUpdate", []updateParam{param("UpgradePolicy", in.UpgradePolicy.SupportType)}, nil
	case in.ZonalShift != nil:
		v.ZonalShift = in.ZonalShift
		return "ZonalShiftConfigUpdate", []updateParam{param("ZonalShiftConfig", in.ZonalShift)}, nil
	case in.DeletionProtection != nil:
		v.DeletionProtection = *in.DeletionProtection
		return "DeletionProtectionUpdate", []updateParam{param("DeletionProtection", *in.DeletionProtection)}, nil
	}
	if in.Compute != nil {
		v.Compute = in.Compute
	}
	if in.Network != nil && in.Network.ElasticLoadBalancing != nil {
		v.Network.ElasticLoadBalancing = in.Network.ElasticLoadBalancing
	}
	if in.Storage != nil {
		v.Storage = in.Storage
	}
	return "AutoModeUpdate", []updateParam{param("ComputeConfig", in.Compute)}, nil
}

// apply changes the endpoints, or else subnets and security groups.
func (v *vpcConfig) apply(view *clusterView) (string, []updateParam, error) {
	next := view.VPC
	if len(v.SubnetIDs) > 0 || v.SecurityGroupIDs != nil {
		if v.SubnetIDs != nil {
			next.SubnetIDs = v.SubnetIDs
		}
		if v.SecurityGroupIDs != nil {
			next.SecurityGroupIDs = v.SecurityGroupIDs
		}
		view.VPC = next
		return "VpcConfigUpdate", []updateParam{param("SubnetIds", next.SubnetIDs), param("SecurityGroupIds", next.SecurityGroupIDs)}, nil
	}
	if v.EndpointPublicAccess != nil {
		next.EndpointPublicAccess = v.EndpointPublicAccess
	}
	if v.EndpointPrivateAccess != nil {
		next.EndpointPrivateAccess = v.EndpointPrivateAccess
	}
	if v.PublicAccessCIDRs != nil {
		next.PublicAccessCIDRs = v.PublicAccessCIDRs
	}
	if err := next.complete(); err != nil {
		return "", nil, err
	}
	view.VPC = next
	return "EndpointAccessUpdate", []updateParam{
		param("EndpointPublicAccess", next.EndpointPublicAccess), param("EndpointPrivateAccess", next.EndpointPrivateAccess),
		param("PublicAccessCidrs", next.PublicAccessCIDRs),
	}, nil
}

type updateVersionInput struct {
	Version        string          `json:"version"`
	ReleaseVersion string          `json:"releaseVersion"`
	LaunchTemplate *launchTemplate `json:"launchTemplate"`
}

func (s *Service) updateClusterVersion(c call, in updateVersionInput) (any, error) {
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if err := s.mayUpdate(c, cl); err != nil {
		return nil, err
	}
	if _, ok := findRelease(in.Version); !ok {
		return nil, invalidParameter("unsupported Kubernetes version %s", in.Version)
	}
	if minor(in.Version) != minor(cl.view.Version)+1 {
		return nil, invalidParameter("Unsupported Kubernetes minor version update from %s to %s", cl.view.Version, in.Version)
	}
	cl.view.Version = in.Version
	return s.startUpdate(cl, "VersionUpdate", "", "", param("Version", in.Version), param("PlatformVersion", platformVersion)), nil
}

type associateEncryptionInput struct {
	EncryptionConfig []encryptionConfig `json:"encryptionConfig"`
}

func (s *Service) associateEncryption(c call, in associateEncryptionInput) (any, error) {
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if err := s.mayUpdate(c, cl); err != nil {
		return nil, err
	}
	if len(cl.view.EncryptionConfig) > 0 {
		return nil, invalidParameter("Encryption is already enabled for cluster %s", cl.view.Name)
	}
	cl.view.EncryptionConfig = in.EncryptionConfig
	return s.startUpdate(cl, "AssociateEncryptionConfig", "", "", param("EncryptionConfig", in.EncryptionConfig)), nil
}
