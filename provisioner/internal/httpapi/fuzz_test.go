package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/kubeopera/platform/provisioner/internal/launch"
	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// FuzzStart sends any body: the service answers with a status of its own, and
// what it accepts can be rendered and keeps within the limits.
func FuzzStart(f *testing.F) {
	for _, c := range readCases(f) {
		f.Add(c.Text())
	}
	f.Add(`{"name":"a","topology":"eks","region":"us-east-1","credential_id":"0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b","kubernetes_version":"v1.34",` +
		`"worker_min":1,"worker_max":9,"vpc_cidr":"172.16.0.0/20","availability_zones":["us-east-1a","us-east-1b","us-east-1c","us-east-1d"],` +
		`"api_access":"private","api_allowed_cidrs":["10.0.0.0/8"],"admin_principal_arn":"arn:aws:iam::123456789012:user/x","tags":{"Ω":"\u1100\u1161","a b":"${x}"}}`)
	render := launch.Renderer(launch.Config{Namespace: "kubeopera-provisioning", ManagedBy: "cluster-provisioner", Timeout: time.Hour, GracePeriod: time.Minute})
	f.Fuzz(func(t *testing.T, body string) {
		s := setup(t)
		w := s.Do(http.MethodPost, "/api/v1/provisions", body, nil)
		switch w.Code {
		case http.StatusAccepted:
		case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
			return
		default:
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		run := s.runs.runs[0]
		in, err := provision.ReadInputs(run.Inputs)
		if err != nil {
			t.Fatal(err)
		}
		if in.Topology != api.TopologyExistingMachines && in.WorkerMin < 1 || in.WorkerMin > in.WorkerCount || in.WorkerCount > in.WorkerMax || in.WorkerMax > 100 || len(in.Environment) > 37 || len(in.Tags) > 40 {
			t.Errorf("beyond the limits: %+v", in)
		}
		launch, err := render(run)
		if err != nil {
			t.Fatalf("accepted, but not rendered: %v", err)
		}
		size := 0
		for name, content := range launch.Files {
			size += len(name) + len(content)
		}
		if size > 1<<20 {
			t.Errorf("%d bytes do not fit into a ConfigMap", size)
		}
		if launch.Job.Name != runcontract.JobName(runcontract.KindProvision, string(run.ID)) {
			t.Errorf("Job is named %s", launch.Job.Name)
		}
		if _, err := runcontract.ReadSpec([]byte(launch.Files[runcontract.SpecFile])); err != nil {
			t.Error(err)
		}
	})
}
