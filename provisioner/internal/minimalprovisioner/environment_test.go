package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubeopera/platform/provisioner/internal/terraformenv"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/skip"
)

func environment(tags map[string]string) terraformenv.Environment {
	return terraformenv.Environment{
		Name: "acme", StateBucket: "bucket", StateKey: "key", ClusterName: "acme", Topology: api.TopologyEKS, Region: "eu-west-1",
		KubernetesVersion: "1.35", VPCCIDR: "10.0.0.0/16", WorkerCount: 2, WorkerMin: 2, WorkerMax: 2, WorkerInstanceType: "t3.large", Tags: tags,
	}
}

// TestTerraformTakesIt applies and destroys the environment with the real
// Terraform, without the provider mirror and with a local state.
func TestTerraformTakesIt(t *testing.T) {
	t.Parallel()
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		skip.Missing(t, skip.Terraform, err.Error())
	}
	cases := []struct {
		name string
		tags map[string]string
		fail bool
	}{
		{"as it is", nil, false},
		{"with an apply that fails", map[string]string{tagFail: "yes"}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files, err := render(environment(c.tags))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			for name, content := range files {
				if name == terraformenv.FileBackend {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			do := func(args ...string) (string, error) {
				cmd := exec.CommandContext(context.WithoutCancel(t.Context()), terraform, args...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE=/dev/null")
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			must := func(args ...string) string {
				out, err := do(args...)
				if err != nil {
					t.Fatalf("terraform %v: %v\n%s", args, err, out)
				}
				return out
			}
			must("init", "-input=false")
			if out := must("fmt", "-check", "-diff"); out != "" {
				t.Errorf("not formatted:\n%s", out)
			}
			principal := "-var=" + runcontract.VariablePrincipal + "=arn:aws:iam::123456789012:role/x"
			out, err := do("apply", "-auto-approve", "-input=false", principal)
			if (err != nil) != c.fail {
				t.Fatalf("apply: %v\n%s", err, out)
			}
			if !c.fail {
				var outputs map[string]struct{ Value string }
				if err := json.Unmarshal([]byte(must("output", "-json")), &outputs); err != nil {
					t.Fatal(err)
				}
				if outputs[runcontract.OutputClusterName].Value != "acme" || outputs[runcontract.OutputClusterEndpoint].Value == "" || outputs[runcontract.OutputClusterCACertificate].Value == "" {
					t.Errorf("outputs %+v", outputs)
				}
				if out := must("plan", "-input=false", "-detailed-exitcode", principal); !strings.Contains(out, "No changes") {
					t.Errorf("a second run would change something:\n%s", out)
				}
			}
			must("destroy", "-auto-approve", "-input=false", principal)
		})
	}
}

func TestTheProviderIsThereIfAskedFor(t *testing.T) {
	t.Parallel()
	for _, tags := range []map[string]string{nil, {tagAWS: "yes"}} {
		files, err := render(environment(tags))
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(files[terraformenv.FileProviders], "hashicorp/aws"); has != (tags != nil) {
			t.Errorf("with tags %v the providers are:\n%s", tags, files[terraformenv.FileProviders])
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	kubeadm := environment(nil)
	kubeadm.Topology, kubeadm.ControlPlaneCount = api.TopologyVanillaKubeadm, 1
	for name, e := range map[string]terraformenv.Environment{
		"another topology":     kubeadm,
		"no number of seconds": environment(map[string]string{tagSeconds: "1; reboot"}),
		"too many":             environment(map[string]string{tagDestroySeconds: "3601"}),
	} {
		if _, err := render(e); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
