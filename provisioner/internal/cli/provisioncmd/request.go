package provisioncmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/request"
	"github.com/kubeopera/platform/shared/api"
)

// addRequestFlags adds -f and a flag for each field.
func addRequestFlags(cmd *cobra.Command) *request.Flags[api.ProvisionRequest] {
	r := request.New[api.ProvisionRequest](cmd)
	request.Text(r, "name", "name of the cluster: a DNS label", func(q *api.ProvisionRequest) *string { return &q.Name })
	request.Text(r, "terraform-environment", "name of the Terraform environment and of all AWS resources (default: name)", func(q *api.ProvisionRequest) *string { return &q.TerraformEnvironment })
	request.Text(r, "topology", "kind of cluster: "+strings.Join(topologies, ", "), func(q *api.ProvisionRequest) *api.Topology { return &q.Topology })
	request.Text(r, "region", "AWS region; not for existing_machines, unless one is reached by ssm", func(q *api.ProvisionRequest) *string { return &q.Region })
	request.Text(r, "credential-id", "id of the AWS credential in auth-service", func(q *api.ProvisionRequest) *string { return &q.CredentialID })
	request.Text(r, "kubernetes-version", "Kubernetes version: major.minor for eks, else major.minor.patch", func(q *api.ProvisionRequest) *string { return &q.KubernetesVersion })
	request.Number(r, "control-plane-count", "control-plane nodes: 1, 3 or 5; not for eks", func(q *api.ProvisionRequest) **int { return &q.ControlPlaneCount })
	request.Text(r, "control-plane-instance-type", "EC2 instance type of control-plane nodes; not for eks", func(q *api.ProvisionRequest) *string { return &q.ControlPlaneInstanceType })
	request.Number(r, "worker-count", "worker nodes at first", func(q *api.ProvisionRequest) **int { return &q.WorkerCount })
	request.Number(r, "worker-min", "fewest worker nodes", func(q *api.ProvisionRequest) **int { return &q.WorkerMin })
	request.Number(r, "worker-max", "most worker nodes", func(q *api.ProvisionRequest) **int { return &q.WorkerMax })
	request.Text(r, "worker-instance-type", "EC2 instance type of worker nodes", func(q *api.ProvisionRequest) *string { return &q.WorkerInstanceType })
	request.Text(r, "vpc-cidr", "private IPv4 range of the VPC, /16 to /24", func(q *api.ProvisionRequest) *string { return &q.VPCCIDR })
	request.Text(r, "pod-cidr", "IPv4 range of pods; not for eks", func(q *api.ProvisionRequest) *string { return &q.PodCIDR })
	request.List(r, "availability-zones", "zones of the region, separated by commas", func(q *api.ProvisionRequest) *[]string { return &q.AvailabilityZones })
	request.Text(r, "api-access", "from where the API server can be reached: public, private", func(q *api.ProvisionRequest) *api.APIAccess { return &q.APIAccess })
	request.List(r, "api-allowed-cidrs", "IPv4 ranges that may reach the API server, separated by commas", func(q *api.ProvisionRequest) *[]string { return &q.APIAllowedCIDRs })
	request.Text(r, "admin-principal-arn", "IAM role or user that becomes cluster administrator as well (eks)", func(q *api.ProvisionRequest) *string { return &q.AdminPrincipalARN })
	request.Text(r, "kubeconfig-auth", "how the kubeconfig authenticates (eks): "+strings.Join(kubeconfigAuths, ", "), func(q *api.ProvisionRequest) *api.KubeconfigAuth { return &q.KubeconfigAuth })
	request.Map(r, "tags", "AWS tags for every resource, as key=value separated by commas", func(q *api.ProvisionRequest) *map[string]string { return &q.Tags })
	request.Bool(r, "allow-replacement", "let Terraform replace the VPC, the cluster or its load balancer; existing_machines: let workers be left out", func(q *api.ProvisionRequest) *bool { return &q.AllowReplacement })
	request.Text(r, "ssh-credential-id", "id of the SSH credential (existing_machines)", func(q *api.ProvisionRequest) *string { return &q.SSHCredentialID })
	request.Text(r, "control-plane-endpoint", "host or host:port of the cluster's API, such as a load balancer's (existing_machines)", func(q *api.ProvisionRequest) *string { return &q.ControlPlaneEndpoint })
	addMachines(cmd, r)
	for name, values := range map[string][]string{
		"topology": topologies, "kubeconfig-auth": kubeconfigAuths, "api-access": {string(api.APIAccessPublic), string(api.APIAccessPrivate)},
		"control-plane-count": {"1", "3", "5"},
	} {
		r.Values(name, values...)
	}
	for _, name := range []string{"name", "terraform-environment", "region", "credential-id", "kubernetes-version", "vpc-cidr", "pod-cidr"} {
		r.Values(name)
	}
	return r
}

var (
	topologies      = []string{string(api.TopologyEKS), string(api.TopologyVanillaKubeadm), string(api.TopologyExistingMachines)}
	kubeconfigAuths = []string{string(api.KubeconfigAuthEmbedded), string(api.KubeconfigAuthExecOnly), string(api.KubeconfigAuthServiceAccount)}
)

// addMachines adds the flags for machines: a file with all of them, or one after the
// other.
func addMachines(cmd *cobra.Command, r *request.Flags[api.ProvisionRequest]) {
	path := cmd.Flags().String("machines", "", "file with a list of machines as YAML or JSON, with the fields of --machine (existing_machines)")
	r.When("machines", func(in *request.Input, q *api.ProvisionRequest) error {
		data, err := in.Read("--machines", *path)
		if err != nil {
			return err
		}
		q.Machines = nil
		if err := request.Decode(data, &q.Machines); err != nil {
			return exit.Usagef("%s: %w", *path, err)
		}
		return nil
	})
	var given machines
	cmd.Flags().Var(&given, "machine", "a machine (existing_machines), as field=value separated by commas, such as address=10.0.0.4,role=worker; once for each")
	r.When("machine", func(_ *request.Input, q *api.ProvisionRequest) error { q.Machines = given; return nil })
}

// machines is the value of --machine.
type machines []api.Machine

// String implements pflag.Value.
func (m *machines) String() string { return "" }

// Type implements pflag.Value.
func (m *machines) Type() string { return "fields" }

// Set implements pflag.Value.
func (m *machines) Set(s string) error {
	var machine api.Machine
	fields := map[string]*string{
		"address": &machine.Address, "role": (*string)(&machine.Role), "user": &machine.User, "host_key": &machine.HostKey,
		"transport": (*string)(&machine.Transport), "instance_id": &machine.InstanceID,
	}
	var seen []string
	for pair := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q is not field=value", pair)
		}
		if slices.Contains(seen, name) {
			return fmt.Errorf("%s is there twice", name)
		}
		seen = append(seen, name)
		switch field := fields[name]; {
		case field != nil:
			*field = value
		case name == "port":
			port, err := strconv.Atoi(value)
			if err != nil {
				return errors.New("port must be a number")
			}
			machine.Port = port
		default:
			return fmt.Errorf("a machine has no field %q; it has address, role, user, port, host_key, transport, instance_id", name)
		}
	}
	*m = append(*m, machine)
	return nil
}
