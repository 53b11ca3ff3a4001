package launch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/provisioner/internal/kube"
	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/provisioner/internal/terraformenv"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

func config() Config {
	return Config{
		Namespace: "kubeopera-provisioning", ManagedBy: "cluster-provisioner",
		Modules: kube.Modules{RepositoryURL: "https://git.example.com/gitops-iac.git", RepositoryRef: "v1.2.3"},
		Timeout: 90 * time.Minute, GracePeriod: 20 * time.Minute, StartDeadline: 10 * time.Minute,
		KubeconfigExec: "aws",
		Env:            map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"},
		BackendConfig:  map[string]string{"use_path_style": "true"},
	}
}

func run(tb testing.TB, change func(*api.ProvisionRequest)) runs.Run {
	tb.Helper()
	req := api.ProvisionRequest{
		Name: "acme-prod", Topology: api.TopologyEKS, Region: "eu-west-1", CredentialID: "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b",
		KubernetesVersion: "1.35", APIAllowedCIDRs: []string{"203.0.113.0/24"}, Tags: map[string]string{"team": "platform"},
	}
	if change != nil {
		change(&req)
	}
	in, problems := provision.Validate(req, provision.Limits{MaxWorkers: 100})
	if len(problems) > 0 {
		tb.Fatalf("the request is refused: %+v", problems)
	}
	inputs, err := json.Marshal(in)
	if err != nil {
		tb.Fatal(err)
	}
	return runs.Run{
		ID: "01938f3a-1c2d-7abc-8def-0123456789ab", Operation: in.Operation, Name: in.Name, Environment: in.Environment, Inputs: inputs,
	}
}

func render(tb testing.TB, r runs.Run) runs.Launch {
	tb.Helper()
	launch, err := Renderer(config())(r)
	if err != nil {
		tb.Fatal(err)
	}
	return launch
}

func TestLaunch(t *testing.T) {
	t.Parallel()
	launch := render(t, run(t, nil))
	golden.Equal(t, "run.json", []byte(launch.Files[runcontract.SpecFile]))
	if _, err := runcontract.ReadSpec([]byte(launch.Files[runcontract.SpecFile])); err != nil {
		t.Errorf("the runner cannot read the spec: %v", err)
	}
	want := []string{"backend.tf", "main.tf", "outputs.tf", "providers.tf", "run.json", "variables.tf"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(launch.Files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got := launch.Job.Name; got != "provision-01938f3a-1c2d-7abc-8def-0123456789ab" {
		t.Errorf("Job is named %s", got)
	}
	if !strings.Contains(launch.Files["backend.tf"], "kubeopera-terraform-state-acme-prod") {
		t.Errorf("another state bucket in:\n%s", launch.Files["backend.tf"])
	}
}

func TestTheSameRunGivesTheSameLaunch(t *testing.T) {
	t.Parallel()
	r := run(t, func(req *api.ProvisionRequest) { req.Tags = map[string]string{"b": "2", "a": "1", "c": "3"} })
	if diff := cmp.Diff(render(t, r), render(t, r)); diff != "" {
		t.Errorf("two launches of one run differ:\n%s", diff)
	}
}

// TestTheEnvironmentIsNotTheRuns: a second run of an environment must plan no change.
func TestTheEnvironmentIsNotTheRuns(t *testing.T) {
	t.Parallel()
	first, second := run(t, nil), run(t, nil)
	second.ID = "01938f3a-1c2d-7abc-8def-0123456789ff"
	a, b := render(t, first).Files, render(t, second).Files
	delete(a, runcontract.SpecFile)
	delete(b, runcontract.SpecFile)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("two runs of one environment differ:\n%s", diff)
	}
}

// TestMachinesThatExistNeedNoTerraform: no environment is rendered, no module cloned.
func TestMachinesThatExistNeedNoTerraform(t *testing.T) {
	t.Parallel()
	launch := render(t, run(t, func(r *api.ProvisionRequest) {
		const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBqi3w9OQDkG1aG4dQG3ohUoyWlJsKvfMTeWyrK9y1bS"
		*r = api.ProvisionRequest{
			Name: "acme-metal", Topology: api.TopologyExistingMachines, KubernetesVersion: "1.36.3",
			SSHCredentialID: "3f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b",
			Machines: []api.Machine{
				{Address: "192.0.2.10", Role: api.RoleControlPlane, User: "ubuntu", HostKey: key},
				{Address: "192.0.2.10", Port: 2222, Role: api.RoleWorker, User: "ubuntu", HostKey: key},
				{Address: strings.Repeat("rack.", 15) + "example.com", Role: api.RoleWorker, User: "ubuntu", HostKey: key},
			},
		}
	}))
	golden.Equal(t, "run_machines.json", []byte(launch.Files[runcontract.SpecFile]))
	if len(launch.Files) != 1 || len(launch.Job.Spec.Template.Spec.InitContainers) != 0 {
		t.Errorf("files %v and %d init containers", slices.Collect(maps.Keys(launch.Files)), len(launch.Job.Spec.Template.Spec.InitContainers))
	}
	spec, err := runcontract.ReadSpec([]byte(launch.Files[runcontract.SpecFile]))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range spec.Machines {
		if seen[m.Name] || len(m.Name) > 63 || strings.HasSuffix(m.Name, "-") {
			t.Errorf("%s is no name for one machine", m.Name)
		}
		seen[m.Name] = true
	}
}

// TestTheDoorIsAsNarrowAsTheRenderer: what passes the one passes the other.
func TestTheDoorIsAsNarrowAsTheRenderer(t *testing.T) {
	t.Parallel()
	tags := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint("k", i)] = "v"
		}
		return m
	}
	render(t, run(t, func(r *api.ProvisionRequest) { r.Tags = tags(terraformenv.MaxTags) }))
	if _, problems := provision.Validate(api.ProvisionRequest{Topology: api.TopologyEKS, Tags: tags(terraformenv.MaxTags + 1)}, provision.Limits{}); !slices.ContainsFunc(problems, func(p api.FieldProblem) bool { return p.Location == "body.tags" }) {
		t.Errorf("more tags than the renderer takes are not refused: %+v", problems)
	}
}

func TestInputsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	if _, err := Renderer(config())(runs.Run{Inputs: json.RawMessage(`[]`)}); err == nil {
		t.Error("no error")
	}
}
