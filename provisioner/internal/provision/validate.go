package provision

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubeopera/platform/shared/api"
)

// Limits are the rules that the service's configuration sets.
type Limits struct {
	// MaxWorkers is the ceiling of worker_count, worker_min and worker_max.
	MaxWorkers int
	// ReservedEnvironments are kept by hand in the modules repository; a run
	// would be applied over the state that the team keeps.
	ReservedEnvironments []string
	// APIAllowedCIDRs may reach a public API server when the request does not say.
	APIAllowedCIDRs []string
}

// Check says what is wrong with limits that come from configuration.
func (l Limits) Check() error {
	c := &checker{}
	for i, cidr := range l.APIAllowedCIDRs {
		c.allowedCIDR(fmt.Sprintf("default range %d", i+1), cidr, true)
	}
	if len(l.APIAllowedCIDRs) > maxAllowedCIDRs {
		c.addf("default ranges", "must be at most %d, which is EKS's limit", maxAllowedCIDRs)
	}
	if l.MaxWorkers < 1 {
		c.addf("worker ceiling", "must be at least 1")
	}
	var errs []error
	for _, p := range c.problems {
		errs = append(errs, fmt.Errorf("%s %s", strings.TrimPrefix(p.Location, "body."), p.Message))
	}
	return errors.Join(errs...)
}

// topologies are what can be asked for.
var topologies = []api.Topology{api.TopologyEKS, api.TopologyVanillaKubeadm, api.TopologyExistingMachines}

// Validate gives the normalised form of a request, or everything that is wrong
// with it. A message says what is allowed and never repeats the value.
//
// What ends up in HCL, a path, a bucket name or a Kubernetes name passes an
// allow-list here and a structured writer behind it.
func Validate(req api.ProvisionRequest, limits Limits) (Inputs, []api.FieldProblem) {
	c := &checker{limits: limits}
	in := Inputs{
		Name:      c.name(req.Name),
		Topology:  c.topology(req.Topology),
		Operation: c.operation(req.Operation),
	}
	in.Environment = c.environment(req.TerraformEnvironment, in.Name)
	switch in.Topology {
	case api.TopologyEKS:
		c.eks(req, &in)
	case api.TopologyVanillaKubeadm:
		c.kubeadm(req, &in)
	case api.TopologyExistingMachines:
		c.existing(req, &in)
	}
	slices.SortStableFunc(c.problems, func(a, b api.FieldProblem) int { return cmp.Compare(a.Location, b.Location) })
	return in, c.problems
}

// eks checks what only this topology has, and refuses what it has not.
func (c *checker) eks(req api.ProvisionRequest, in *Inputs) {
	in.CredentialID = c.credentialID(req.CredentialID)
	in.Region = c.region(req.Region)
	in.KubernetesVersion = c.eksVersion(req.KubernetesVersion)
	in.WorkerCount, in.WorkerMin, in.WorkerMax = c.workers(req.WorkerCount, req.WorkerMin, req.WorkerMax)
	in.WorkerInstanceType = c.instanceType("worker_instance_type", req.WorkerInstanceType, DefaultWorkerInstanceType)
	in.AvailabilityZones = c.zones(req.AvailabilityZones, in.Region, minEKSZones, "EKS spreads its control plane over at least 2")
	in.VPCCIDR = c.vpcCIDR(req.VPCCIDR, len(in.AvailabilityZones))
	in.APIAccess = c.apiAccess(req.APIAccess)
	in.APIAllowedCIDRs = c.allowedCIDRs(req.APIAllowedCIDRs, in.APIAccess)
	in.AdminPrincipalARN = c.principalARN(req.AdminPrincipalARN, in.Region)
	in.KubeconfigAuth = c.kubeconfigAuth(req.KubeconfigAuth)
	in.Tags = c.tags(req.Tags)
	in.AllowReplacement = req.AllowReplacement

	if req.ControlPlaneCount != nil {
		c.addf("control_plane_count", "does not belong to eks: EKS runs its own control plane; leave it out")
	}
	if req.ControlPlaneInstanceType != "" {
		c.addf("control_plane_instance_type", "does not belong to eks: EKS runs its own control plane; leave it out")
	}
	if req.PodCIDR != "" {
		c.addf("pod_cidr", "does not belong to eks: its pods take addresses of the VPC; leave it out")
	}
	c.noMachines(req, api.TopologyEKS)
}

// noMachines refuses what only existing_machines has.
func (c *checker) noMachines(req api.ProvisionRequest, topology api.Topology) {
	c.absent(topology, "it makes its own machines", map[string]bool{
		"ssh_credential_id": req.SSHCredentialID != "", "machines": len(req.Machines) > 0, "control_plane_endpoint": req.ControlPlaneEndpoint != "",
	})
}

// checker collects problems. Each of its methods checks one field and returns
// its normalised value, which is only of use when no problem was found.
type checker struct {
	limits   Limits
	problems []api.FieldProblem
}

func (c *checker) addf(field, format string, args ...any) {
	c.problems = append(c.problems, api.FieldProblem{Location: "body." + field, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) topology(t api.Topology) api.Topology {
	if t == "" {
		c.addf("topology", "is required: one of %s", join(topologies))
	} else if !slices.Contains(topologies, t) {
		c.addf("topology", "must be one of %s", join(topologies))
	}
	return t
}

func (c *checker) operation(o api.Operation) api.Operation {
	switch o {
	case "":
		return api.OperationApply
	case api.OperationApply, api.OperationPlan:
	default:
		c.addf("operation", "must be %s or %s", api.OperationApply, api.OperationPlan)
	}
	return o
}

func (c *checker) apiAccess(a api.APIAccess) api.APIAccess {
	switch a {
	case "":
		return api.APIAccessPublic
	case api.APIAccessPublic, api.APIAccessPrivate:
	default:
		c.addf("api_access", "must be %s or %s", api.APIAccessPublic, api.APIAccessPrivate)
	}
	return a
}

// join lists words for a message.
func join[S ~string](words []S) string {
	parts := make([]string, len(words))
	for i, w := range words {
		parts[i] = string(w)
	}
	return strings.Join(parts, ", ")
}
