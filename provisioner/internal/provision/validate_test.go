package provision

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
)

func limits() Limits {
	return Limits{
		MaxWorkers:           100,
		ReservedEnvironments: []string{"development", "staging", "production"},
		APIAllowedCIDRs:      []string{"203.0.113.0/24"},
	}
}

// request is a valid one with a change.
func request(change func(*api.ProvisionRequest)) api.ProvisionRequest {
	r := api.ProvisionRequest{
		Name:              "acme-prod",
		Topology:          api.TopologyEKS,
		Region:            "eu-west-1",
		CredentialID:      "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b",
		KubernetesVersion: "1.35",
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestDefaultsAreFilledIn(t *testing.T) {
	t.Parallel()
	got, problems := Validate(request(nil), limits())
	if len(problems) > 0 {
		t.Fatalf("problems: %+v", problems)
	}
	want := Inputs{
		Name: "acme-prod", Environment: "acme-prod", Topology: api.TopologyEKS, Operation: api.OperationApply,
		Region: "eu-west-1", CredentialID: "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b", KubernetesVersion: "1.35",
		WorkerCount: 2, WorkerMin: 2, WorkerMax: 2, WorkerInstanceType: "t3.large", VPCCIDR: "10.0.0.0/16",
		APIAccess: api.APIAccessPublic, APIAllowedCIDRs: []string{"203.0.113.0/24"}, Tags: map[string]string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
}

func TestAcceptedAndNormalised(t *testing.T) {
	t.Parallel()
	type req = api.ProvisionRequest
	cases := []struct {
		name   string
		change func(*req)
		got    func(Inputs) any
		want   any
	}{
		{"a leading v of the version is taken off", func(r *req) { r.KubernetesVersion = "v1.35" }, func(i Inputs) any { return i.KubernetesVersion }, "1.35"},
		{"the credential's id is written in lower case", func(r *req) { r.CredentialID = strings.ToUpper(r.CredentialID) }, func(i Inputs) any { return i.CredentialID }, "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"},
		{"the longest environment", func(r *req) { r.TerraformEnvironment = strings.Repeat("e", 37) }, func(i Inputs) any { return len(i.Environment) }, 37},
		{"a name of one digit", func(r *req) { r.Name = "7" }, func(i Inputs) any { return i.Environment }, "7"},
		{"a name too long for a bucket with an environment of its own", func(r *req) { r.Name = strings.Repeat("n", 63); r.TerraformEnvironment = "n" }, func(i Inputs) any { return i.Environment }, "n"},
		{"a minimum above the default count moves the count", func(r *req) { r.WorkerMin, r.WorkerMax = new(5), new(9) }, func(i Inputs) any { return []int{i.WorkerCount, i.WorkerMin, i.WorkerMax} }, []int{5, 5, 9}},
		{"a maximum below the default count moves the count", func(r *req) { r.WorkerMax = new(1) }, func(i Inputs) any { return []int{i.WorkerCount, i.WorkerMin, i.WorkerMax} }, []int{1, 1, 1}},
		{"the ceiling of workers", func(r *req) { r.WorkerCount = new(100) }, func(i Inputs) any { return i.WorkerMax }, 100},
		{"zones keep their order", func(r *req) { r.AvailabilityZones = []string{"eu-west-1c", "eu-west-1a"} }, func(i Inputs) any { return i.AvailabilityZones }, []string{"eu-west-1c", "eu-west-1a"}},
		{"the smallest VPC", func(r *req) { r.VPCCIDR = "192.168.7.0/24" }, func(i Inputs) any { return i.VPCCIDR }, "192.168.7.0/24"},
		{"the smallest VPC of four zones", func(r *req) {
			r.Region, r.VPCCIDR = "us-east-1", "172.31.16.0/20"
			r.AvailabilityZones = []string{"us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"}
		}, func(i Inputs) any { return i.VPCCIDR }, "172.31.16.0/20"},
		{"allowed ranges are sorted and named once", func(r *req) { r.APIAllowedCIDRs = []string{"198.51.100.7/32", "0.0.0.0/0", "198.51.100.7/32"} }, func(i Inputs) any { return i.APIAllowedCIDRs }, []string{"0.0.0.0/0", "198.51.100.7/32"}},
		{"a private API server has no default ranges", func(r *req) { r.APIAccess = api.APIAccessPrivate }, func(i Inputs) any { return i.APIAllowedCIDRs }, []string(nil)},
		{"a private API server takes private ranges", func(r *req) {
			r.APIAccess, r.APIAllowedCIDRs = api.APIAccessPrivate, []string{"10.20.0.0/16"}
		}, func(i Inputs) any { return i.APIAllowedCIDRs }, []string{"10.20.0.0/16"}},
		{"an administrator in GovCloud", func(r *req) {
			r.Region, r.AdminPrincipalARN = "us-gov-west-1", "arn:aws-us-gov:iam::123456789012:role/ops/admin"
		}, func(i Inputs) any { return i.AdminPrincipalARN }, "arn:aws-us-gov:iam::123456789012:role/ops/admin"},
		{"a metal instance type", func(r *req) { r.WorkerInstanceType = "c7i.metal-24xl" }, func(i Inputs) any { return i.WorkerInstanceType }, "c7i.metal-24xl"},
		{"a high-memory instance type", func(r *req) { r.WorkerInstanceType = "u-6tb1.56xlarge" }, func(i Inputs) any { return i.WorkerInstanceType }, "u-6tb1.56xlarge"},
		{"a tag with letters of other scripts", func(r *req) { r.Tags = map[string]string{"отдел": "東京 7"} }, func(i Inputs) any { return i.Tags }, map[string]string{"отдел": "東京 7"}},
		{"a tag with an empty value", func(r *req) { r.Tags = map[string]string{"spot": ""} }, func(i Inputs) any { return i.Tags }, map[string]string{"spot": ""}},
		{"a tag of two letters that make one is composed", func(r *req) { r.Tags = map[string]string{"\u1100\u1161": "v"} }, func(i Inputs) any { return i.Tags }, map[string]string{"\uac00": "v"}},
		{"apply said outright", func(r *req) { r.Operation = api.OperationApply }, func(i Inputs) any { return i.Operation }, api.OperationApply},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in, problems := Validate(request(c.change), limits())
			if len(problems) > 0 {
				t.Fatalf("problems: %+v", problems)
			}
			if diff := cmp.Diff(c.want, c.got(in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	type req = api.ProvisionRequest
	tags := func(kv ...string) func(*req) {
		return func(r *req) {
			r.Tags = map[string]string{}
			for i := 0; i < len(kv); i += 2 {
				r.Tags[kv[i]] = kv[i+1]
			}
		}
	}
	cases := []struct {
		name     string
		change   func(*req)
		location string // without body.
		says     string
	}{
		{"no name", func(r *req) { r.Name = "" }, "name", "required"},
		{"a name of 64 characters", func(r *req) { r.Name = strings.Repeat("a", 64) }, "name", "1 to 63"},
		{"a name with a line feed at its end", func(r *req) { r.Name = "acme\n" }, "name", "letters"},
		{"a name with a letter that is not ASCII", func(r *req) { r.Name = "acmé" }, "name", "letters"},
		{"a name too long for a bucket", func(r *req) { r.Name = strings.Repeat("a", 38) }, "terraform_environment", "defaults to name"},
		{"a name that is a reserved environment", func(r *req) { r.Name = "staging" }, "terraform_environment", "kept by hand"},
		{"an environment that is a path", func(r *req) { r.TerraformEnvironment = "../x" }, "terraform_environment", "1 to 37"},
		{"an environment that ends like a directory bucket", func(r *req) { r.TerraformEnvironment = "a--x-s3" }, "terraform_environment", "--x-s3"},
		{"an environment that ends like a table bucket", func(r *req) { r.TerraformEnvironment = "a--table-s3" }, "terraform_environment", "--table-s3"},
		{"an environment that ends like an access point", func(r *req) { r.TerraformEnvironment = "a--ol-s3" }, "terraform_environment", "--ol-s3"},
		{"an environment that ends like an account's namespace", func(r *req) { r.TerraformEnvironment = "a-an" }, "terraform_environment", "-an"},
		{"no topology", func(r *req) { r.Topology = "" }, "topology", "required: one of eks"},
		{"an unknown topology", func(r *req) { r.Topology = "gke" }, "topology", "eks, vanilla_kubeadm, existing_machines"},
		{"an operation of its own route", func(r *req) { r.Operation = api.OperationDestroy }, "operation", "must be apply or plan"},
		{"destroy", func(r *req) { r.Operation = api.OperationDestroy }, "operation", "must be apply"},
		{"no region", func(r *req) { r.Region = "" }, "region", "required"},
		{"a region in upper case", func(r *req) { r.Region = "EU-WEST-1" }, "region", "eu-west-1"},
		{"an isolated region", func(r *req) { r.Region = "us-iso-east-1" }, "region", "eu-west-1"},
		{"no credential", func(r *req) { r.CredentialID = "" }, "credential_id", "required"},
		{"a credential id with a line feed", func(r *req) { r.CredentialID += "\n" }, "credential_id", "UUID"},
		{"no version", func(r *req) { r.KubernetesVersion = "" }, "kubernetes_version", "required"},
		{"a patch version", func(r *req) { r.KubernetesVersion = "1.35.2" }, "kubernetes_version", "EKS chooses the patch version"},
		{"a version that EKS has dropped", func(r *req) { r.KubernetesVersion = "1.31" }, "kubernetes_version", "1.32 or newer"},
		{"a version of one digit", func(r *req) { r.KubernetesVersion = "1.9" }, "kubernetes_version", "major.minor"},
		{"the latest version", func(r *req) { r.KubernetesVersion = "latest" }, "kubernetes_version", "major.minor"},
		{"two leading vs", func(r *req) { r.KubernetesVersion = "vv1.35" }, "kubernetes_version", "major.minor"},
		{"no workers", func(r *req) { r.WorkerCount = new(0) }, "worker_count", "1 to 100"},
		{"negative workers", func(r *req) { r.WorkerMin = new(-1) }, "worker_min", "1 to 100"},
		{"more workers than the ceiling", func(r *req) { r.WorkerMax = new(101) }, "worker_max", "1 to 100"},
		{"a minimum above the maximum", func(r *req) { r.WorkerMin, r.WorkerMax = new(3), new(2) }, "worker_min", "worker_max"},
		{"a count below the minimum", func(r *req) { r.WorkerCount, r.WorkerMin, r.WorkerMax = new(1), new(2), new(3) }, "worker_count", "worker_min"},
		{"a count above the maximum", func(r *req) { r.WorkerCount, r.WorkerMax = new(9), new(3) }, "worker_count", "worker_max"},
		{"an instance type without a size", func(r *req) { r.WorkerInstanceType = "t3" }, "worker_instance_type", "t3.large"},
		{"an instance type of macOS", func(r *req) { r.WorkerInstanceType = "mac2-m2pro.metal" }, "worker_instance_type", "Linux"},
		{"a VPC that is no range", func(r *req) { r.VPCCIDR = "10.0.0.0" }, "vpc_cidr", "CIDR"},
		{"a VPC with host bits", func(r *req) { r.VPCCIDR = "10.0.0.5/16" }, "vpc_cidr", "10.0.0.0/16"},
		{"a VPC in IPv6", func(r *req) { r.VPCCIDR = "fd00::/48" }, "vpc_cidr", "IPv6"},
		{"a VPC in IPv4 within IPv6", func(r *req) { r.VPCCIDR = "::ffff:10.0.0.0/112" }, "vpc_cidr", "IPv"},
		{"a VPC too large", func(r *req) { r.VPCCIDR = "10.0.0.0/15" }, "vpc_cidr", "/16 to /24"},
		{"a VPC too small", func(r *req) { r.VPCCIDR = "10.0.0.0/25" }, "vpc_cidr", "/16 to /24"},
		{"a VPC too small for four zones", func(r *req) {
			r.VPCCIDR = "10.0.0.0/21"
			r.AvailabilityZones = []string{"eu-west-1a", "eu-west-1b", "eu-west-1c", "eu-west-1d"}
		}, "vpc_cidr", "/16 to /20"},
		{"a public VPC", func(r *req) { r.VPCCIDR = "172.32.0.0/16" }, "vpc_cidr", "private"},
		{"a VPC in the shared range", func(r *req) { r.VPCCIDR = "100.64.0.0/16" }, "vpc_cidr", "private"},
		{"one zone", func(r *req) { r.AvailabilityZones = []string{"eu-west-1a"} }, "availability_zones", "2 to 6"},
		{"a zone twice", func(r *req) { r.AvailabilityZones = []string{"eu-west-1a", "eu-west-1b", "eu-west-1a"} }, "availability_zones", "once"},
		{"a zone of another region", func(r *req) { r.AvailabilityZones = []string{"eu-west-1a", "eu-west-2a"} }, "availability_zones", "of the region, such as eu-west-1a"},
		{"a region for a zone", func(r *req) { r.AvailabilityZones = []string{"eu-west-1a", "eu-west-1"} }, "availability_zones", "of the region"},
		{"a local zone", func(r *req) {
			r.Region, r.AvailabilityZones = "us-west-2", []string{"us-west-2a", "us-west-2-lax-1a"}
		}, "availability_zones", "local or wavelength"},
		{"a wavelength zone", func(r *req) {
			r.Region, r.AvailabilityZones = "us-east-1", []string{"us-east-1a", "us-east-1-wl1-bos-wlz-1"}
		}, "availability_zones", "local or wavelength"},
		{"another access", func(r *req) { r.APIAccess = "open" }, "api_access", "public or private"},
		{"an allowed range that is a host name", func(r *req) { r.APIAllowedCIDRs = []string{"198.51.100.0/24", "office.example.com"} }, "api_allowed_cidrs[1]", "CIDR"},
		{"an allowed range that is private", func(r *req) { r.APIAllowedCIDRs = []string{"10.1.0.0/16"} }, "api_allowed_cidrs[0]", "public"},
		{"an allowed range that is loopback", func(r *req) { r.APIAllowedCIDRs = []string{"127.0.0.1/32"} }, "api_allowed_cidrs[0]", "public"},
		{"too many allowed ranges", func(r *req) {
			for i := range 41 {
				r.APIAllowedCIDRs = append(r.APIAllowedCIDRs, fmt.Sprintf("198.51.100.%d/32", i))
			}
		}, "api_allowed_cidrs", "at most 40"},
		{"the session of an administrator", func(r *req) {
			r.AdminPrincipalARN = "arn:aws:sts::123456789012:assumed-role/admin/me"
		}, "admin_principal_arn", "session"},
		{"an administrator of another partition", func(r *req) { r.AdminPrincipalARN = "arn:aws-cn:iam::123456789012:role/admin" }, "admin_principal_arn", "partition, aws"},
		{"the account's root as administrator", func(r *req) { r.AdminPrincipalARN = "arn:aws:iam::123456789012:root" }, "admin_principal_arn", "role or user"},
		{"a service's role as administrator", func(r *req) {
			r.AdminPrincipalARN = "arn:aws:iam::123456789012:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS"
		}, "admin_principal_arn", "service-linked"},
		{"an administrator with a quote", func(r *req) { r.AdminPrincipalARN = `arn:aws:iam::123456789012:role/a"b` }, "admin_principal_arn", "role or user"},
		{"another authentication", func(r *req) { r.KubeconfigAuth = "password" }, "kubeconfig_auth", "exec_only"},
		{"41 tags", func(r *req) {
			r.Tags = map[string]string{}
			for i := range 41 {
				r.Tags[fmt.Sprint("k", i)] = "v"
			}
		}, "tags", "at most 40"},
		{"a tag of AWS", tags("AWS:owner", "me"), "tags", "aws:"},
		{"a tag of EKS", tags("eks:cluster-name", "me"), "tags", "eks:"},
		{"a tag of ours", tags("kubeopera.io/environment", "x"), "tags", "kubeopera.io/"},
		{"a tag of Kubernetes", tags("kubernetes.io/cluster/x", "owned"), "tags", "kubernetes.io/"},
		{"a tag of a Kubernetes subdomain", tags("node.k8s.io/x", "owned"), "tags", "k8s.io/"},
		{"the name tag", tags("name", "x"), "tags", "Name"},
		{"two tags that differ in case", tags("Owner", "a", "owner", "b"), "tags", "case"},
		{"an empty key", tags("", "a"), "tags", "1 to 128"},
		{"a key of 129 letters", tags(strings.Repeat("k", 129), "a"), "tags", "1 to 128"},
		{"a value of 257 letters", tags("k", strings.Repeat("é", 257)), "tags.k", "at most 256"},
		{"a value with a symbol", tags("k", "№7"), "tags.k", "letters"},
		{"a value with a combining mark alone", tags("k", "\u0301"), "tags.k", "letters"},
		{"a value with a line separator", tags("k", "a\u2028b"), "tags.k", "letters"},
		{"a value with a space at its end", tags("k", "a "), "tags.k", "no space"},
		{"a value that is not UTF-8", tags("k", "a\xff"), "tags.k", "letters"},
		{"control planes", func(r *req) { r.ControlPlaneCount = new(3) }, "control_plane_count", "EKS runs its own"},
		{"zero control planes", func(r *req) { r.ControlPlaneCount = new(0) }, "control_plane_count", "EKS runs its own"},
		{"an instance type of control planes", func(r *req) { r.ControlPlaneInstanceType = "t3.large" }, "control_plane_instance_type", "EKS runs its own"},
		{"a pod network", func(r *req) { r.PodCIDR = "192.168.0.0/16" }, "pod_cidr", "addresses of the VPC"},
		{"an SSH credential", func(r *req) { r.SSHCredentialID = "x" }, "ssh_credential_id", "its own machines"},
		{"machines", func(r *req) { r.Machines = []api.Machine{{}} }, "machines", "its own machines"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, problems := Validate(request(c.change), limits())
			if !slices.ContainsFunc(problems, func(p api.FieldProblem) bool {
				return p.Location == "body."+c.location && strings.Contains(p.Message, c.says)
			}) {
				t.Errorf("problems %+v, want one at %s that says %q", problems, c.location, c.says)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, problems := Validate(request(func(r *api.ProvisionRequest) {
		r.Name, r.Region, r.KubernetesVersion, r.VPCCIDR, r.WorkerCount = "Acme", "mars", "latest", "10.0.0.0/8", new(0)
	}), limits())
	var got []string
	for _, p := range problems {
		if !slices.Contains(got, p.Location) {
			got = append(got, p.Location)
		}
	}
	want := []string{"body.kubernetes_version", "body.name", "body.region", "body.vpc_cidr", "body.worker_count"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("locations (-want +got):\n%s", diff)
	}
}

// TestValuesAreNotRepeated: a token in the wrong field must not come back, or
// end up in a log of responses.
func TestValuesAreNotRepeated(t *testing.T) {
	t.Parallel()
	const secret = "wJalrXUtnFEMIK7MDENG"
	_, problems := Validate(api.ProvisionRequest{
		Name: secret, TerraformEnvironment: secret, Topology: api.TopologyEKS, Region: secret, CredentialID: secret, KubernetesVersion: secret,
		WorkerInstanceType: secret, VPCCIDR: secret, AvailabilityZones: []string{secret}, APIAccess: secret, APIAllowedCIDRs: []string{secret},
		AdminPrincipalARN: secret, KubeconfigAuth: secret, Operation: secret, PodCIDR: secret, SSHCredentialID: secret,
		Tags: map[string]string{"a": secret + "$", secret + "$": "b"},
	}, limits())
	for _, p := range problems {
		if strings.Contains(p.Message, secret) || strings.Contains(p.Location, secret) {
			t.Errorf("%s: %s repeats the value", p.Location, p.Message)
		}
	}
	if len(problems) < 15 {
		t.Errorf("only %d problems: %+v", len(problems), problems)
	}
}

func TestNoDefaultRangesNeedsThemInTheRequest(t *testing.T) {
	t.Parallel()
	l := limits()
	l.APIAllowedCIDRs = nil
	_, problems := Validate(request(nil), l)
	want := "body.api_allowed_cidrs"
	if len(problems) != 1 || problems[0].Location != want {
		t.Errorf("problems %+v, want one at %s", problems, want)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	if err := limits().Check(); err != nil {
		t.Errorf("good limits: %v", err)
	}
	err := Limits{MaxWorkers: 0, APIAllowedCIDRs: []string{"10.0.0.0/8", "x"}}.Check()
	for _, says := range []string{"range 1 must be public", "range 2 must be an IPv4 range", "at least 1"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want it to say %q", err, says)
		}
	}
}

// TestRegionsHaveTheFormOfTheirPartition catches a typing error in the table.
func TestRegionsHaveTheFormOfTheirPartition(t *testing.T) {
	t.Parallel()
	prefixes := map[Partition][]string{
		PartitionStandard:  {"af-", "ap-", "ca-", "eu-", "il-", "me-", "mx-", "sa-", "us-"},
		PartitionChina:     {"cn-"},
		PartitionGovCloud:  {"us-gov-"},
		PartitionSovereign: {"eusc-"},
	}
	for region, partition := range regions {
		ok := slices.ContainsFunc(prefixes[partition], func(p string) bool { return strings.HasPrefix(region, p) })
		if !ok || (partition == PartitionStandard && strings.HasPrefix(region, "us-gov-")) || len(strings.Split(region, "-")) < 3 {
			t.Errorf("region %s in partition %s", region, partition)
		}
	}
}
