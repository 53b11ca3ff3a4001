package provisioncmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/shared/api"
)

// maxRequest is what the service takes, in bytes.
const maxRequest = 1 << 20

// requestFlags gather a request from -f and the flags of its fields.
type requestFlags struct {
	file   string
	list   string               // file with machines
	fields api.ProvisionRequest // of the flags that were given
	set    []func(*api.ProvisionRequest)
}

// addRequestFlags adds -f and a flag for each field.
func addRequestFlags(cmd *cobra.Command) *requestFlags {
	r := &requestFlags{}
	f := cmd.Flags()
	f.StringVarP(&r.file, "file", "f", "", "file with the request as YAML or JSON, - for standard input; flags overrule its fields")
	text(r, f, "name", "name of the cluster: a DNS label", func(q *api.ProvisionRequest) *string { return &q.Name })
	text(r, f, "terraform-environment", "name of the Terraform environment and of all AWS resources (default: name)", func(q *api.ProvisionRequest) *string { return &q.TerraformEnvironment })
	text(r, f, "topology", "kind of cluster: "+strings.Join(topologies, ", "), func(q *api.ProvisionRequest) *api.Topology { return &q.Topology })
	text(r, f, "region", "AWS region; not for existing_machines, unless one is reached by ssm", func(q *api.ProvisionRequest) *string { return &q.Region })
	text(r, f, "credential-id", "id of the AWS credential in auth-service", func(q *api.ProvisionRequest) *string { return &q.CredentialID })
	text(r, f, "kubernetes-version", "Kubernetes version: major.minor for eks, else major.minor.patch", func(q *api.ProvisionRequest) *string { return &q.KubernetesVersion })
	number(r, f, "control-plane-count", "control-plane nodes: 1, 3 or 5; not for eks", func(q *api.ProvisionRequest) **int { return &q.ControlPlaneCount })
	text(r, f, "control-plane-instance-type", "EC2 instance type of control-plane nodes; not for eks", func(q *api.ProvisionRequest) *string { return &q.ControlPlaneInstanceType })
	number(r, f, "worker-count", "worker nodes at first", func(q *api.ProvisionRequest) **int { return &q.WorkerCount })
	number(r, f, "worker-min", "fewest worker nodes", func(q *api.ProvisionRequest) **int { return &q.WorkerMin })
	number(r, f, "worker-max", "most worker nodes", func(q *api.ProvisionRequest) **int { return &q.WorkerMax })
	text(r, f, "worker-instance-type", "EC2 instance type of worker nodes", func(q *api.ProvisionRequest) *string { return &q.WorkerInstanceType })
	text(r, f, "vpc-cidr", "private IPv4 range of the VPC, /16 to /24", func(q *api.ProvisionRequest) *string { return &q.VPCCIDR })
	text(r, f, "pod-cidr", "IPv4 range of pods; not for eks", func(q *api.ProvisionRequest) *string { return &q.PodCIDR })
	list(r, f, "availability-zones", "zones of the region, separated by commas", func(q *api.ProvisionRequest) *[]string { return &q.AvailabilityZones })
	text(r, f, "api-access", "from where the API server can be reached: public, private", func(q *api.ProvisionRequest) *api.APIAccess { return &q.APIAccess })
	list(r, f, "api-allowed-cidrs", "IPv4 ranges that may reach the API server, separated by commas", func(q *api.ProvisionRequest) *[]string { return &q.APIAllowedCIDRs })
	text(r, f, "admin-principal-arn", "IAM role or user that becomes cluster administrator as well (eks)", func(q *api.ProvisionRequest) *string { return &q.AdminPrincipalARN })
	text(r, f, "kubeconfig-auth", "how the kubeconfig authenticates (eks): "+strings.Join(kubeconfigAuths, ", "), func(q *api.ProvisionRequest) *api.KubeconfigAuth { return &q.KubeconfigAuth })
	f.StringToStringVar(&r.fields.Tags, "tags", nil, "AWS tags for every resource, as key=value separated by commas")
	f.Lookup("tags").DefValue = ""
	r.when(f, "tags", func(q *api.ProvisionRequest) { q.Tags = r.fields.Tags })
	f.BoolVar(&r.fields.AllowReplacement, "allow-replacement", false, "let Terraform replace the VPC, the cluster or its load balancer; existing_machines: let workers be left out")
	r.when(f, "allow-replacement", func(q *api.ProvisionRequest) { q.AllowReplacement = r.fields.AllowReplacement })
	text(r, f, "ssh-credential-id", "id of the SSH credential (existing_machines)", func(q *api.ProvisionRequest) *string { return &q.SSHCredentialID })
	text(r, f, "control-plane-endpoint", "host or host:port of the cluster's API, such as a load balancer's (existing_machines)", func(q *api.ProvisionRequest) *string { return &q.ControlPlaneEndpoint })
	f.StringVar(&r.list, "machines", "", "file with a list of machines as YAML or JSON, with the fields of --machine (existing_machines)")
	f.Var((*machines)(&r.fields.Machines), "machine", "a machine (existing_machines), as field=value separated by commas, such as address=10.0.0.4,role=worker; once for each")
	r.when(f, "machine", func(q *api.ProvisionRequest) { q.Machines = r.fields.Machines })
	for name, values := range map[string][]string{
		"topology": topologies, "kubeconfig-auth": kubeconfigAuths, "api-access": {string(api.APIAccessPublic), string(api.APIAccessPrivate)},
		"control-plane-count": {"1", "3", "5"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
	for _, name := range []string{"name", "terraform-environment", "region", "credential-id", "kubernetes-version", "vpc-cidr", "pod-cidr"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // the flag exists
	}
	return r
}

var (
	topologies      = []string{string(api.TopologyEKS), string(api.TopologyVanillaKubeadm), string(api.TopologyExistingMachines)}
	kubeconfigAuths = []string{string(api.KubeconfigAuthEmbedded), string(api.KubeconfigAuthExecOnly), string(api.KubeconfigAuthServiceAccount)}
)

// when runs set on the request if the flag was given.
func (r *requestFlags) when(f *pflag.FlagSet, name string, set func(*api.ProvisionRequest)) {
	r.set = append(r.set, func(q *api.ProvisionRequest) {
		if f.Changed(name) {
			set(q)
		}
	})
}

func text[T ~string](r *requestFlags, f *pflag.FlagSet, name, usage string, field func(*api.ProvisionRequest) *T) {
	value := f.String(name, "", usage)
	r.when(f, name, func(q *api.ProvisionRequest) { *field(q) = T(*value) })
}

func number(r *requestFlags, f *pflag.FlagSet, name, usage string, field func(*api.ProvisionRequest) **int) {
	value := f.Int(name, 0, usage)
	r.when(f, name, func(q *api.ProvisionRequest) { *field(q) = value })
}

func list(r *requestFlags, f *pflag.FlagSet, name, usage string, field func(*api.ProvisionRequest) *[]string) {
	value := f.StringSlice(name, nil, usage)
	r.when(f, name, func(q *api.ProvisionRequest) { *field(q) = *value })
}

// read gives the request.
func (r *requestFlags) read(stdin io.Reader) (api.ProvisionRequest, error) {
	var q api.ProvisionRequest
	if r.file != "" {
		data, err := readRequest(r.file, stdin)
		if err != nil {
			return q, err
		}
		if q, err = decodeRequest(data); err != nil {
			return q, exit.Usagef("%s: %w", r.file, err)
		}
	}
	if r.list != "" {
		data, err := readRequest(r.list, stdin)
		if err != nil {
			return q, err
		}
		q.Machines = nil
		if err := decode(data, &q.Machines); err != nil {
			return q, exit.Usagef("%s: %w", r.list, err)
		}
	}
	for _, set := range r.set {
		set(&q)
	}
	return q, nil
}

func readRequest(path string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path) //nolint:gosec // whoever runs the program names the file
		if err != nil {
			return nil, &exit.Error{Code: exit.Usage, Err: err}
		}
		defer func() { _ = f.Close() }() // only read from
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if len(data) > maxRequest {
		return nil, exit.Usagef("%s: more than %d bytes", path, maxRequest)
	}
	return data, nil
}

// decodeRequest reads YAML or JSON. Fields that the API does not have, names in
// another case, fields twice and values of another type are errors.
func decodeRequest(data []byte) (api.ProvisionRequest, error) {
	var q api.ProvisionRequest
	err := decode(data, &q)
	return q, err
}

func decode(data []byte, into any) error {
	// Without the target type, so that an unquoted version 1.30 is the number that
	// YAML makes of it, and an error, not the text 1.3.
	data, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	if string(data) == "null" {
		return errors.New("it is empty")
	}
	strict, err := json.UnmarshalStrict(data, into)
	if err != nil && strings.Contains(err.Error(), "number into Go struct field") && strings.HasSuffix(err.Error(), "of type string") {
		err = fmt.Errorf("%w; put the value in quotes", err)
	}
	return errors.Join(append(strict, err)...)
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
