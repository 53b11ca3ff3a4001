package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/proctree"
	"github.com/kubeopera/platform/shared/skip"
)

// setupAWS prepares the run of an environment with AWS's real provider, from the
// image's set-up: a mirror, Terraform's own configuration that names it, and the
// mirror's lock file.
func setupAWS(t *testing.T, hcl string) (f *fixture, mirror string) {
	t.Helper()
	mirror, ok := os.LookupEnv("KUBEOPERA_PROVIDER_MIRROR")
	if !ok {
		skip.Missing(t, skip.ProviderMirror, "KUBEOPERA_PROVIDER_MIRROR is not set")
	}
	f = setup(t, `
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100.0, < 7.0.0"
    }
  }
}
`+hcl+outputs())
	rc, err := os.ReadFile("../../deploy/terraform.rc")
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, "terraform.rc", strings.ReplaceAll(string(rc), "/usr/share/terraform/providers", mirror))
	f.extra = []string{
		"TERRAFORM_LOCK_FILE=../../deploy/terraform.lock.hcl",
		// Nothing listens there. The fakes are on this machine and need no proxy.
		"HTTPS_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1",
	}
	return f, mirror
}

func TestRun_init_needs_no_network(t *testing.T) {
	t.Parallel()
	f, mirror := setupAWS(t, "")
	f.spec.Operation = api.OperationPlan
	c := f.start(t)
	if code := c.wait(t); code != runcontract.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	if !strings.Contains(c.output.String(), "hashicorp/aws: Reusing previous version from the dependency lock file") {
		t.Errorf("the lock file was not used:\n%s", c.output)
	}
	link, err := os.Readlink(filepath.Join(f.dir, "modules-repository/run", environment, ".terraform/providers/registry.terraform.io/hashicorp/aws/5.100.0/linux_amd64"))
	if err != nil || !strings.HasPrefix(link, mirror) {
		t.Errorf("the provider was copied (0.7 GB) instead of linked: %q, %v", link, err)
	}
}

// TestRun_killed_provider: Terraform survives its provider, and says that it is gone.
func TestRun_killed_provider(t *testing.T) {
	skip.Long(t)
	t.Parallel()
	tests := []struct {
		name    string
		request string
		want    runcontract.ExitCode
		phase   api.Phase
	}{
		{"in the plan", "GetCallerIdentity", runcontract.ExitTerraformPlan, api.PhasePlan},
		{"in the apply", "PutParameter", runcontract.ExitTerraformApply, api.PhaseApply},
	}
	for _, tt := range tests { // one at a time: each takes 600 MB
		t.Run(tt.name, func(t *testing.T) {
			f, _ := setupAWS(t, `
provider "aws" { region = "eu-west-1" }
resource "terraform_data" "first" {}
resource "aws_ssm_parameter" "this" {
  name  = "/acme/${terraform_data.first.id}"
  type  = "String"
  value = "v"
}
`)
			var runner atomic.Int32
			f.aws.SetFault(func(operation, _ string) (string, int) {
				if operation != tt.request || runner.Load() == 0 {
					return "", 0
				}
				for _, pid := range proctree.Below(int(runner.Load())) {
					exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
					if err == nil && strings.HasPrefix(filepath.Base(exe), "terraform-provider-aws") {
						_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
					}
				}
				return "", 0
			})
			c := f.start(t)
			runner.Store(int32(c.cmd.Process.Pid))
			if code := c.wait(t); code != tt.want {
				t.Fatalf("exit code %d, want %d", code, tt.want)
			}
			if result := f.result(t); result.Phase != tt.phase || result.Diagnostic == nil {
				t.Errorf("result %+v", result)
			}
			if tt.phase == api.PhaseApply {
				f.stateHas(t, "first")
			}
			f.unlocked(t)
		})
	}
}
