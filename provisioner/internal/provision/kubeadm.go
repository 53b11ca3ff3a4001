package provision

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/kubeopera/platform/shared/api"
)

// The defaults of vanilla_kubeadm.
const (
	// DefaultControlPlaneCount survives the loss of one node.
	DefaultControlPlaneCount        = 3
	DefaultControlPlaneInstanceType = "t3.medium"
	DefaultPodCIDR                  = "192.168.0.0/16"
)

// serviceCIDR is kubeadm's default, which the bootstrap scripts leave as it is.
const serviceCIDR = "10.96.0.0/12"

// kubeadm checks what a cluster of our own nodes has, and refuses what it has not.
func (c *checker) kubeadm(req api.ProvisionRequest, in *Inputs) {
	in.CredentialID = c.credentialID(req.CredentialID)
	in.Region = c.region(req.Region)
	in.ControlPlaneCount = c.controlPlanes(req.ControlPlaneCount)
	in.ControlPlaneInstanceType = c.controlPlaneInstanceType(req.ControlPlaneInstanceType)
	in.KubernetesVersion = c.kubeadmVersion(req.KubernetesVersion, in.ControlPlaneCount)
	in.WorkerCount, in.WorkerMin, in.WorkerMax = c.workers(req.WorkerCount, req.WorkerMin, req.WorkerMax)
	in.WorkerInstanceType = c.instanceType("worker_instance_type", req.WorkerInstanceType, DefaultWorkerInstanceType)
	fewest, reason := kubeadmZones(in.ControlPlaneCount)
	in.AvailabilityZones = c.zones(req.AvailabilityZones, in.Region, fewest, reason)
	in.VPCCIDR = c.vpcCIDR(req.VPCCIDR, len(in.AvailabilityZones))
	in.PodCIDR = c.podCIDR(req.PodCIDR)
	c.apart(in.VPCCIDR, in.PodCIDR)
	in.APIAccess = c.apiAccess(req.APIAccess)
	in.APIAllowedCIDRs = c.allowedCIDRs(req.APIAllowedCIDRs, in.APIAccess)
	in.Tags = c.tags(req.Tags)
	in.AllowReplacement = req.AllowReplacement

	if req.AdminPrincipalARN != "" {
		c.addf("admin_principal_arn", "does not belong to vanilla_kubeadm: its API server knows no IAM; leave it out")
	}
	if req.KubeconfigAuth != "" {
		c.addf("kubeconfig_auth", "does not belong to vanilla_kubeadm: its kubeconfig holds a certificate; leave it out")
	}
	c.noMachines(req, api.TopologyVanillaKubeadm)
}

// controlPlanes is an odd number: two members have no more quorum than one.
func (c *checker) controlPlanes(count *int) int {
	if count == nil {
		return DefaultControlPlaneCount
	}
	if !slices.Contains([]int{1, 3, 5}, *count) {
		c.addf("control_plane_count", "must be 1, 3 or 5: etcd needs a majority, which an even number does not make safer")
	}
	return *count
}

// kubeadmZones is the fewest zones: a load balancer in one zone would not
// outlive it.
func kubeadmZones(controlPlanes int) (fewest int, reason string) {
	if controlPlanes > 1 {
		return 2, "one zone alone is not highly available"
	}
	return 1, "the node needs one"
}

// fixedPatches are the first patch releases whose kubeadm initialises through a
// network load balancer without waiting for it (kubernetes/kubeadm#3294).
var fixedPatches = map[int]int{33: 12, 34: 8, 35: 5, 36: 1}

// The minors that the bootstrap scripts have versions of everything for
// (modules/compute/bootstrap/versions.env).
const (
	oldestKubeadmMinor = 33
	newestKubeadmMinor = 36
)

func (c *checker) kubeadmVersion(version string, controlPlanes int) string {
	const field = "kubernetes_version"
	version = strings.TrimPrefix(version, "v")
	switch {
	case version == "":
		c.addf(field, "is required: major.minor.patch, such as 1.36.3")
		return version
	case minorVersion.MatchString(version):
		c.addf(field, "must name the patch too, such as %s.3: nodes that join later install the same one", version)
		return version
	case !patchVersion.MatchString(version):
		c.addf(field, "must be major.minor.patch, such as 1.36.3")
		return version
	}
	parts := strings.Split(version, ".")
	minor, minorErr := strconv.Atoi(parts[1])
	patch, patchErr := strconv.Atoi(parts[2])
	if minorErr != nil || patchErr != nil {
		c.addf(field, "must be major.minor.patch, such as 1.36.3")
		return version
	}
	if minor < oldestKubeadmMinor || minor > newestKubeadmMinor {
		c.addf(field, "must be of 1.%d to 1.%d, for which the nodes' components are pinned", oldestKubeadmMinor, newestKubeadmMinor)
	} else if fixed, ok := fixedPatches[minor]; ok && controlPlanes > 1 && patch < fixed {
		c.addf(field, "must be 1.%d.%d or newer with several control planes: kubeadm of older patches cannot initialise through a network load balancer", minor, fixed)
	}
	return version
}

// controlPlaneInstanceType has the two CPUs and 1,700 MB that kubeadm's
// preflight checks want.
func (c *checker) controlPlaneInstanceType(t string) string {
	const field = "control_plane_instance_type"
	before := len(c.problems)
	t = c.instanceType(field, t, DefaultControlPlaneInstanceType)
	if len(c.problems) > before {
		return t
	}
	family, size, _ := strings.Cut(t, ".")
	burstable := slices.Contains([]string{"t3", "t3a", "t4g"}, family)
	small := size == "nano" || size == "micro" ||
		size == "small" && !burstable ||
		size == "medium" && !burstable && family != "t2"
	if small {
		c.addf(field, "is too small for a control plane: kubeadm wants 2 CPUs and 1,700 MB, as %s has", DefaultControlPlaneInstanceType)
	}
	return t
}

// podCIDR is a private range of which every node gets a /26 block.
func (c *checker) podCIDR(cidr string) string {
	if cidr == "" {
		return DefaultPodCIDR
	}
	const field = "pod_cidr"
	prefix, ok := c.ipv4(field, cidr, DefaultPodCIDR)
	switch {
	case !ok:
		return cidr
	case prefix.Bits() < 8 || prefix.Bits() > 20:
		c.addf(field, "must be a /8 to /20: every node takes 64 addresses at a time")
	case !slices.ContainsFunc(privateRanges, func(r netip.Prefix) bool { return within(prefix, r) }) &&
		!within(prefix, netip.MustParsePrefix("100.64.0.0/10")):
		c.addf(field, "must be private: within 10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12 or 192.168.0.0/16")
	}
	return prefix.String()
}

// apart refuses networks that overlap: a packet could not tell where to go. One
// that is none has its own problem, or is not this platform's.
func (c *checker) apart(vpc, pods string) {
	service := netip.MustParsePrefix(serviceCIDR)
	v, vpcErr := netip.ParsePrefix(vpc)
	p, podErr := netip.ParsePrefix(pods)
	if vpcErr == nil && v.Overlaps(service) {
		c.addf("vpc_cidr", "must not overlap the range of Services, %s", serviceCIDR)
	}
	if podErr == nil && p.Overlaps(service) {
		c.addf("pod_cidr", "must not overlap the range of Services, %s", serviceCIDR)
	}
	if vpcErr == nil && podErr == nil && v.Overlaps(p) {
		c.addf("vpc_cidr", "must not overlap the range of pods, %s: choose another, or move the pods with pod_cidr", p)
	}
}
