package provision

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
)

// kubeadmRequest is a valid one with a change.
func kubeadmRequest(change func(*api.ProvisionRequest)) api.ProvisionRequest {
	return request(func(r *api.ProvisionRequest) {
		r.Topology = api.TopologyVanillaKubeadm
		r.KubernetesVersion = "1.36.3"
		if change != nil {
			change(r)
		}
	})
}

func TestKubeadmDefaultsAreFilledIn(t *testing.T) {
	t.Parallel()
	got, problems := Validate(kubeadmRequest(nil), limits())
	if len(problems) > 0 {
		t.Fatalf("problems: %+v", problems)
	}
	want := Inputs{
		Name: "acme-prod", Environment: "acme-prod", Topology: api.TopologyVanillaKubeadm, Operation: api.OperationApply,
		Region: "eu-west-1", CredentialID: "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b", KubernetesVersion: "1.36.3",
		ControlPlaneCount: 3, ControlPlaneInstanceType: "t3.medium", PodCIDR: "192.168.0.0/16",
		WorkerCount: 2, WorkerMin: 2, WorkerMax: 2, WorkerInstanceType: "t3.large", VPCCIDR: "10.0.0.0/16",
		APIAccess: api.APIAccessPublic, APIAllowedCIDRs: []string{"203.0.113.0/24"}, Tags: map[string]string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
}

func TestKubeadmRequests(t *testing.T) {
	t.Parallel()
	type req = api.ProvisionRequest
	cases := []struct {
		name   string
		change func(*req)
		field  string // with a problem; empty: accepted
	}{
		{"one control plane in one zone", func(r *req) {
			r.ControlPlaneCount, r.AvailabilityZones = new(1), []string{"eu-west-1a"}
		}, ""},
		{"three control planes in one zone", func(r *req) { r.AvailabilityZones = []string{"eu-west-1a"} }, "availability_zones"},
		{"no control plane", func(r *req) { r.ControlPlaneCount = new(0) }, "control_plane_count"},
		{"four control planes", func(r *req) { r.ControlPlaneCount = new(4) }, "control_plane_count"},
		{"five control planes", func(r *req) { r.ControlPlaneCount = new(5) }, ""},
		{"a leading v", func(r *req) { r.KubernetesVersion = "v1.36.3" }, ""},
		{"a version without its patch", func(r *req) { r.KubernetesVersion = "1.36" }, "kubernetes_version"},
		{"a version that is too old", func(r *req) { r.KubernetesVersion = "1.32.99" }, "kubernetes_version"},
		{"the last patch with the load balancer bug", func(r *req) { r.KubernetesVersion = "1.36.0" }, "kubernetes_version"},
		{"the first patch without it", func(r *req) { r.KubernetesVersion = "1.33.12" }, ""},
		{"a version that is too new", func(r *req) { r.KubernetesVersion = "1.37.0" }, "kubernetes_version"},
		{"the bug does not matter to one control plane", func(r *req) {
			r.KubernetesVersion, r.ControlPlaneCount = "1.33.0", new(1)
		}, ""},
		{"a patch beyond every number", func(r *req) { r.KubernetesVersion = "1.36.99999999999999999999" }, "kubernetes_version"},
		{"t3.small has two CPUs and 2 GiB", func(r *req) { r.ControlPlaneInstanceType = "t3.small" }, ""},
		{"t2.small has one CPU", func(r *req) { r.ControlPlaneInstanceType = "t2.small" }, "control_plane_instance_type"},
		{"m7g.medium has one CPU", func(r *req) { r.ControlPlaneInstanceType = "m7g.medium" }, "control_plane_instance_type"},
		{"t4g.nano", func(r *req) { r.ControlPlaneInstanceType = "t4g.nano" }, "control_plane_instance_type"},
		{"pods elsewhere make room for the VPC", func(r *req) {
			r.VPCCIDR, r.PodCIDR = "192.168.0.0/16", "172.16.0.0/16"
		}, ""},
		{"pods among the Services", func(r *req) { r.PodCIDR = "10.100.0.0/16" }, "pod_cidr"},
		{"pods that hold the VPC", func(r *req) { r.PodCIDR = "10.0.0.0/12" }, "vpc_cidr"},
		{"a pod range for two nodes", func(r *req) { r.PodCIDR = "172.16.0.0/25" }, "pod_cidr"},
		{"public addresses for pods", func(r *req) { r.PodCIDR = "8.0.0.0/16" }, "pod_cidr"},
		{"an IAM administrator", func(r *req) { r.AdminPrincipalARN = "arn:aws:iam::123456789012:role/admin" }, "admin_principal_arn"},
		{"a form of IAM authentication", func(r *req) { r.KubeconfigAuth = api.KubeconfigAuthExecOnly }, "kubeconfig_auth"},
		{"machines", func(r *req) { r.Machines = []api.Machine{{Address: "192.0.2.1"}} }, "machines"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := Validate(kubeadmRequest(tc.change), limits())
			if tc.field == "" {
				if len(problems) > 0 {
					t.Errorf("problems: %+v", problems)
				}
				return
			}
			if len(problems) != 1 || problems[0].Location != "body."+tc.field {
				t.Errorf("problems %+v, want one of %s", problems, tc.field)
			}
		})
	}
}
