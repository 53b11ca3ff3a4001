package terraformenv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/kubeopera/platform/shared/api"
)

// Environment is what a Terraform environment is rendered from. All defaults
// have been filled in; an empty optional field leaves the choice to the module.
type Environment struct {
	// Name names the environment. Every AWS name derives from it.
	Name string
	// StateBucket and StateKey say where the environment's state is kept.
	StateBucket, StateKey string
	// ClusterName is what people call the cluster. It is only shown, as a tag.
	ClusterName string
	Topology    api.Topology
	Region      string
	// KubernetesVersion is major.minor for eks, and major.minor.patch for vanilla_kubeadm.
	KubernetesVersion string

	VPCCIDR string
	// AvailabilityZones are used in this order; none means the first three of the region.
	AvailabilityZones []string

	// ControlPlaneCount and ControlPlaneInstanceType are for vanilla_kubeadm.
	ControlPlaneCount        int
	ControlPlaneInstanceType string

	WorkerCount        int
	WorkerMin          int
	WorkerMax          int
	WorkerInstanceType string

	// PublicAccess serves the Kubernetes API on a public address too.
	PublicAccess bool
	// AllowedCIDRs may reach that address or, without public access, the address
	// inside the VPC; none means the VPC itself there.
	AllowedCIDRs []string
	// PodCIDR is the range of pods, for vanilla_kubeadm.
	PodCIDR string
	// AdminPrincipalARN optionally names a second administrator of the cluster, for eks.
	AdminPrincipalARN string

	// Tags are put on every resource, beside the platform's own.
	Tags map[string]string
}

// Tags of the platform on every resource.
const (
	TagEnvironment = "kubeopera.io/environment"
	TagManagedBy   = "kubeopera.io/managed-by"
	TagCluster     = "kubeopera.io/cluster"

	managedBy = "cluster-provisioner"
)

// MaxTags is how many tags of its own an environment may have. AWS allows 50 on
// a resource. An EKS node has most of others: three of the platform, its Name,
// and six that EKS and its Auto Scaling group may put there.
const MaxTags = 50 - 10

// maxControlPlanes is what the modules take at most.
const maxControlPlanes = 5

// tags returns the tags of every resource. Keys are compared as HCL writes them,
// in Unicode's normal form C: two that differ only in form are one to Terraform.
func (e Environment) tags() (map[string]string, error) {
	tags := map[string]string{
		TagEnvironment: e.Name,
		TagManagedBy:   managedBy,
	}
	if e.ClusterName != "" {
		tags[TagCluster] = e.ClusterName
	}
	for _, key := range slices.Sorted(maps.Keys(e.Tags)) {
		normal := norm.NFC.String(key)
		if _, ok := tags[normal]; ok || normal == TagCluster {
			return nil, fmt.Errorf("tag %q: set by the platform or given twice", key)
		}
		tags[normal] = e.Tags[key]
	}
	return tags, nil
}

// check finds what would make the files malformed or silently different.
func (e Environment) check() error {
	if e.Name == "" || e.StateBucket == "" || e.StateKey == "" {
		return fmt.Errorf("environment without a name, a state bucket or a state key")
	}
	texts := []string{
		e.Name, e.StateBucket, e.StateKey, e.ClusterName, e.Region, e.KubernetesVersion, e.VPCCIDR, e.WorkerInstanceType, e.AdminPrincipalARN,
		e.ControlPlaneInstanceType, e.PodCIDR,
	}
	texts = append(texts, e.AvailabilityZones...)
	texts = append(texts, e.AllowedCIDRs...)
	for key, value := range e.Tags {
		texts = append(texts, key, value)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("value is not UTF-8")
		}
	}
	if e.Topology == api.TopologyVanillaKubeadm && (e.ControlPlaneCount < 1 || e.ControlPlaneCount > maxControlPlanes) {
		return fmt.Errorf("%d control planes, 1 to %d are possible", e.ControlPlaneCount, maxControlPlanes)
	}
	if len(e.Tags) > MaxTags {
		return fmt.Errorf("%d tags, at most %d are possible", len(e.Tags), MaxTags)
	}
	return nil
}

// awsName returns the name, shortened to limit bytes if it is longer. A shortened
// name ends in a hash of the whole one, so that names which differ stay different.
func awsName(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	const hashLength = 8
	kept := strings.ToValidUTF8(name[:limit-hashLength-1], "")
	return kept + "-" + hex.EncodeToString(sum[:])[:hashLength]
}
