package run

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/leftovers"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
)

func TestDestroy(t *testing.T) {
	t.Parallel()
	remaining := &leftovers.RemainingError{Remaining: []leftovers.Remaining{{Kind: leftovers.KindVolume, ID: "vol-1", Reason: "in use", Action: "detach it"}}}
	tests := []struct {
		name    string
		prepare func(w *world, s *runcontract.Spec)
		code    runcontract.ErrorCode
		phase   api.Phase
		says    string
		steps   string
	}{
		{
			"an EKS cluster", func(w *world, _ *runcontract.Spec) { w.aws = true },
			"", api.PhaseDone, "destroyed: 2 removed",
			"prepare init plan to destroy show leftovers remove apply remove",
		},
		{
			"a kubeadm cluster",
			func(w *world, s *runcontract.Spec) {
				w.aws, s.Topology, s.Name = true, api.TopologyVanillaKubeadm, "acme"
			},
			"", api.PhaseDone, "destroyed: 2 removed",
			"prepare init plan to destroy show leftovers remove apply remove parameters removed",
		},
		{
			"an environment without AWS", func(*world, *runcontract.Spec) {},
			"", api.PhaseDone, "destroyed: 2 removed",
			"prepare init plan to destroy show apply",
		},
		{
			"no state, but what a destroy before has left", func(w *world, _ *runcontract.Spec) { w.aws, w.empty = true, true },
			"", api.PhaseDone, "nothing to destroy",
			"prepare init plan to destroy show leftovers remove",
		},
		{
			"no bucket", func(w *world, _ *runcontract.Spec) { w.bucket = nil },
			"", api.PhaseDone, "nothing to destroy", "",
		},
		{
			"leftovers that cannot be removed",
			func(w *world, _ *runcontract.Spec) {
				w.aws = true
				w.on["remove"] = func(context.Context) error { return remaining }
			},
			runcontract.CodeLeftovers, api.PhaseCleanUp, "volume vol-1: in use (detach it)",
			"prepare init plan to destroy show leftovers remove",
		},
		{
			"Terraform fails",
			func(w *world, _ *runcontract.Spec) {
				w.on["apply"] = func(context.Context) error { return &terraform.Error{Verb: "apply"} }
			},
			runcontract.CodeTerraformApply, api.PhaseDestroy, "terraform apply",
			"prepare init plan to destroy show apply",
		},
		{
			"its parameters cannot be removed",
			func(w *world, s *runcontract.Spec) {
				w.aws, s.Topology, s.Name = true, api.TopologyVanillaKubeadm, "acme"
				w.on["parameters removed"] = func(context.Context) error { return errors.New("AccessDenied") }
			},
			runcontract.CodeLeftovers, api.PhaseDestroy, "the environment is destroyed, but not what its nodes have written: AccessDenied",
			"prepare init plan to destroy show leftovers remove apply remove parameters removed",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(), spec()
			s.Operation = api.OperationDestroy
			tt.prepare(w, &s)
			result := w.run(t.Context(), s)
			if result.ErrorCode != tt.code || result.Phase != tt.phase || !strings.Contains(result.Message, tt.says) {
				t.Errorf("%s in %s: %q", result.ErrorCode, result.Phase, result.Message)
			}
			steps := strings.Join(w.calls[3:len(w.calls)-1], " ") // after open, identity and bucket; before finish
			if diff := cmp.Diff(tt.steps, steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if w.files[runcontract.KeyKubeconfig] != nil {
				t.Error("a kubeconfig was published")
			}
		})
	}
}

func TestPlan_says_what_would_change(t *testing.T) {
	t.Parallel()
	w, s := newWorld(), spec()
	s.Operation = api.OperationPlan
	result := w.run(t.Context(), s)
	if result.Message != "plan: 2 to add, 0 to change, 0 to destroy" {
		t.Errorf("message %q", result.Message)
	}
	if diff := cmp.Diff(&api.Changes{Add: 2}, result.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if log := w.log.String(); !strings.Contains(log, "# aws_vpc.this will be created") {
		t.Errorf("log:\n%s", log)
	}
	if last := w.calls[len(w.calls)-2]; last != "text" {
		t.Errorf("steps %v", w.calls)
	}
}
