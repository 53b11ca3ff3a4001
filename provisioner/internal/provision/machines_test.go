package provision

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
)

const hostKeyOfTest = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBqi3w9OQDkG1aG4dQG3ohUoyWlJsKvfMTeWyrK9y1bS"

// machinesRequest is a valid one with a change.
func machinesRequest(change func(*api.ProvisionRequest)) api.ProvisionRequest {
	r := api.ProvisionRequest{
		Name: "acme-metal", Topology: api.TopologyExistingMachines, KubernetesVersion: "1.36.3",
		SSHCredentialID: "3F8B7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b",
		Machines: []api.Machine{
			{Address: "192.0.2.10", Role: api.RoleControlPlane, User: "ubuntu", HostKey: hostKeyOfTest + " root@cp"},
			{Address: "worker-1.example.com", Role: api.RoleWorker, User: "root", Port: 2222, HostKey: hostKeyOfTest},
		},
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestMachinesDefaultsAreFilledIn(t *testing.T) {
	t.Parallel()
	got, problems := Validate(machinesRequest(nil), limits())
	if len(problems) > 0 {
		t.Fatalf("problems: %+v", problems)
	}
	want := Inputs{
		Name: "acme-metal", Environment: "acme-metal", Topology: api.TopologyExistingMachines, Operation: api.OperationApply,
		KubernetesVersion: "1.36.3", ControlPlaneCount: 1, PodCIDR: "192.168.0.0/16",
		SSHCredentialID: "3f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b", ControlPlaneEndpoint: "192.0.2.10:6443",
		Machines: []api.Machine{
			{Address: "192.0.2.10", Role: api.RoleControlPlane, User: "ubuntu", Port: 22, HostKey: hostKeyOfTest, Transport: api.TransportDirect},
			{Address: "worker-1.example.com", Role: api.RoleWorker, User: "root", Port: 2222, HostKey: hostKeyOfTest, Transport: api.TransportDirect},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
}

func TestMachinesRequests(t *testing.T) {
	t.Parallel()
	type req = api.ProvisionRequest
	first := func(change func(*api.Machine)) func(*req) {
		return func(r *req) { change(&r.Machines[0]) }
	}
	three := func(r *req) {
		for _, address := range []string{"192.0.2.11", "192.0.2.12"} {
			m := r.Machines[0]
			m.Address = address
			r.Machines = append(r.Machines, m)
		}
	}
	ssm := func(r *req) {
		for i := range r.Machines {
			m := &r.Machines[i]
			m.Transport, m.Address, m.Port, m.InstanceID = api.TransportSSM, "", 0, "i-0123456789abcdef"+string(rune('0'+i))
		}
		r.Region, r.CredentialID, r.ControlPlaneEndpoint = "eu-west-1", "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b", "api.example.com"
	}
	both := func(changes ...func(*req)) func(*req) {
		return func(r *req) {
			for _, change := range changes {
				change(r)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*req)
		field  string // with a problem; empty: accepted
	}{
		"IPv6":                      {first(func(m *api.Machine) { m.Address = "2001:db8::1" }), ""},
		"through Systems Manager":   {ssm, ""},
		"a registered machine":      {both(ssm, first(func(m *api.Machine) { m.InstanceID = "mi-0123456789abcdef0" })), ""},
		"three with a balancer":     {both(three, func(r *req) { r.ControlPlaneEndpoint = "api.example.com:443" }), ""},
		"a plan":                    {func(r *req) { r.Operation = api.OperationPlan }, ""},
		"workers may be left out":   {func(r *req) { r.AllowReplacement = true }, ""},
		"three without a balancer":  {three, "control_plane_endpoint"},
		"no control plane":          {first(func(m *api.Machine) { m.Role = api.RoleWorker }), "machines"},
		"two control planes":        {func(r *req) { r.Machines[1].Role = api.RoleControlPlane }, "machines"},
		"no machine":                {func(r *req) { r.Machines = nil }, "machines"},
		"too many":                  {func(r *req) { r.Machines = slices.Repeat(r.Machines, 51) }, "machines"},
		"the same machine twice":    {func(r *req) { r.Machines[1] = r.Machines[0] }, "machines[1]"},
		"another role":              {first(func(m *api.Machine) { m.Role = "control_plane" }), "machines[0].role"},
		"another transport":         {first(func(m *api.Machine) { m.Transport = "telnet" }), "machines[0].transport"},
		"an option as address":      {first(func(m *api.Machine) { m.Address = "-oProxyCommand=id" }), "machines[0].address"},
		"an address with a port":    {first(func(m *api.Machine) { m.Address = "192.0.2.10:22" }), "machines[0].address"},
		"an address with a zone":    {first(func(m *api.Machine) { m.Address = "fe80::1%eth0" }), "machines[0].address"},
		"an address of digits":      {first(func(m *api.Machine) { m.Address = "1.2.3" }), "machines[0].address"},
		"everybody's address":       {first(func(m *api.Machine) { m.Address = "0.0.0.0" }), "machines[0].address"},
		"no address":                {first(func(m *api.Machine) { m.Address = "" }), "machines[0].address"},
		"a user with an option":     {first(func(m *api.Machine) { m.User = "-l" }), "machines[0].user"},
		"no user":                   {first(func(m *api.Machine) { m.User = "" }), "machines[0].user"},
		"a port":                    {first(func(m *api.Machine) { m.Port = 65536 }), "machines[0].port"},
		"no host key":               {first(func(m *api.Machine) { m.HostKey = "" }), "machines[0].host_key"},
		"a key of another type":     {first(func(m *api.Machine) { m.HostKey = strings.Replace(hostKeyOfTest, "ed25519", "rsa", 1) }), "machines[0].host_key"},
		"a DSA key":                 {first(func(m *api.Machine) { m.HostKey = "ssh-dss AAAAB3NzaC1kc3M=" }), "machines[0].host_key"},
		"a line of known_hosts":     {first(func(m *api.Machine) { m.HostKey = "192.0.2.10 " + hostKeyOfTest }), "machines[0].host_key"},
		"two host keys":             {first(func(m *api.Machine) { m.HostKey = hostKeyOfTest + "\n" + hostKeyOfTest }), "machines[0].host_key"},
		"an instance id for direct": {first(func(m *api.Machine) { m.InstanceID = "i-0123456789abcdef0" }), "machines[0].instance_id"},
		"ssm without instance id":   {both(ssm, first(func(m *api.Machine) { m.InstanceID = "" })), "machines[0].instance_id"},
		"ssm without region":        {both(ssm, func(r *req) { r.Region = "" }), "region"},
		"ssm without credential":    {both(ssm, func(r *req) { r.CredentialID = "" }), "credential_id"},
		"ssm without endpoint":      {both(ssm, func(r *req) { r.ControlPlaneEndpoint = "" }), "control_plane_endpoint"},
		"an endpoint as URL":        {func(r *req) { r.ControlPlaneEndpoint = "https://api.example.com" }, "control_plane_endpoint"},
		"an endpoint's port":        {func(r *req) { r.ControlPlaneEndpoint = "api.example.com:0" }, "control_plane_endpoint"},
		"a region for nothing":      {func(r *req) { r.Region = "eu-west-1" }, "region"},
		"a credential for nothing":  {func(r *req) { r.CredentialID = "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b" }, "credential_id"},
		"no SSH credential":         {func(r *req) { r.SSHCredentialID = "" }, "ssh_credential_id"},
		"an SSH credential's name":  {func(r *req) { r.SSHCredentialID = "mine" }, "ssh_credential_id"},
		"no version":                {func(r *req) { r.KubernetesVersion = "" }, "kubernetes_version"},
		"a count of control planes": {func(r *req) { r.ControlPlaneCount = new(1) }, "control_plane_count"},
		"a count of workers":        {func(r *req) { r.WorkerCount = new(1) }, "worker_count"},
		"an instance type":          {func(r *req) { r.WorkerInstanceType = "t3.large" }, "worker_instance_type"},
		"a VPC":                     {func(r *req) { r.VPCCIDR = "10.0.0.0/16" }, "vpc_cidr"},
		"zones":                     {func(r *req) { r.AvailabilityZones = []string{"eu-west-1a"} }, "availability_zones"},
		"tags":                      {func(r *req) { r.Tags = map[string]string{"a": "b"} }, "tags"},
		"API access":                {func(r *req) { r.APIAccess = api.APIAccessPrivate }, "api_access"},
		"an administrator":          {func(r *req) { r.AdminPrincipalARN = "arn:aws:iam::123456789012:role/x" }, "admin_principal_arn"},
		"pods among Services":       {func(r *req) { r.PodCIDR = "10.96.0.0/16" }, "pod_cidr"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := Validate(machinesRequest(c.change), limits())
			if c.field == "" && len(problems) > 0 {
				t.Errorf("problems: %+v", problems)
			}
			if c.field != "" && !slices.ContainsFunc(problems, func(p api.FieldProblem) bool { return p.Location == "body."+c.field }) {
				t.Errorf("problems %+v, want one at %s", problems, c.field)
			}
		})
	}
}
