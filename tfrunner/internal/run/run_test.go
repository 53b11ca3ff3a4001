package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/tfrunner/internal/ekskubeconfig"
	"github.com/kubeopera/platform/tfrunner/internal/eksversion"
	"github.com/kubeopera/platform/tfrunner/internal/events"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun_order(t *testing.T) {
	t.Parallel()
	w := newWorld()
	result := w.run(t.Context(), spec())
	if result.Outcome != runcontract.OutcomeSucceeded {
		t.Fatalf("result %+v", result)
	}
	want := []string{"open", "identity", "bucket", "prepare", "init", "plan", "apply", "outputs", "keys", "finish"}
	if diff := cmp.Diff(want, w.calls); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	wantBackend := map[string]string{"bucket": "b", "key": "k", "region": "us-east-2", "use_path_style": "true"}
	if diff := cmp.Diff(wantBackend, w.backend); diff != "" {
		t.Errorf("backend (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"credential_principal_arn": "arn:aws:iam::123456789012:role/r"}, w.vars); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if len(w.files[runcontract.KeyKubeconfig]) == 0 || len(w.files[runcontract.KeyLogTail]) == 0 {
		t.Errorf("files %v", w.files)
	}
	if diff := cmp.Diff(result, w.message); diff != "" {
		t.Errorf("termination message (-want +got):\n%s", diff)
	}
}

func TestRun_version_that_cannot_be_checked(t *testing.T) {
	t.Parallel()
	w, s := newWorld(), spec()
	s.KubernetesVersion = "1.35"
	w.on["version 1.35"] = func(context.Context) error { return errors.New("AccessDeniedException: eks:DescribeClusterVersions") }
	if result := w.run(t.Context(), s); result.Outcome != runcontract.OutcomeSucceeded {
		t.Errorf("result %+v", result)
	}
	if text := w.log.String(); !strings.Contains(text, "warning: the Kubernetes version is not checked: AccessDeniedException") {
		t.Errorf("log:\n%s", text)
	}
}

func TestRun_service_account_token(t *testing.T) {
	t.Parallel()
	w, s := newWorld(), spec()
	s.KubeconfigAuth = api.KubeconfigAuthServiceAccount
	if result := w.run(t.Context(), s); result.Outcome != runcontract.OutcomeSucceeded {
		t.Fatalf("result %+v", result)
	}
	if got := string(w.files[runcontract.KeyKubeconfig]); !strings.Contains(got, "token: token-of-acme") || strings.Contains(got, "exec:") {
		t.Errorf("kubeconfig:\n%s", got)
	}
	text := w.log.String()
	if !strings.Contains(text, ekskubeconfig.Revoke) || strings.Contains(text, "token-of-acme") {
		t.Errorf("log:\n%s", text)
	}
}

func TestRun_progress_tells_what_everything_waits_for(t *testing.T) {
	t.Parallel()
	w := newWorld()
	event := func(k events.Kind, address, text string) {
		w.emit(events.Event{Kind: k, Address: address, Action: "create", Text: text})
	}
	w.on["apply"] = func(context.Context) error {
		event(events.KindApplyStart, "slow", "")
		event(events.KindApplyStart, "other", "")
		event(events.KindApplyProgress, "slow", "slow: Still creating... [10s elapsed]")
		event(events.KindApplyProgress, "other", "other: Still creating... [10s elapsed]")
		event(events.KindApplyComplete, "slow", "")
		return nil
	}
	w.run(t.Context(), spec())
	var got []string
	for _, p := range w.progress {
		if p.Phase == api.PhaseApply {
			got = append(got, p.Current+"|"+p.Message)
		}
	}
	want := []string{
		"|applying", "|applying", // entered; a resource is complete already
		"slow|applying", "slow|applying",
		"slow|slow: Still creating... [10s elapsed]", "slow|slow: Still creating... [10s elapsed]",
		"other|applying", "other|applying",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestRun_failures(t *testing.T) {
	t.Parallel()
	fail := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	diagnostic := &events.Diagnostic{Error: true, Summary: "Boom", Detail: "It broke. Badly.", Address: "aws_vpc.this"}
	vpc := []*tfjson.ResourceChange{{
		Address: "aws_vpc.this", Mode: tfjson.ManagedResourceMode, Type: "aws_vpc", Name: "this",
		Change: &tfjson.Change{Actions: tfjson.Actions{tfjson.ActionDelete, tfjson.ActionCreate}},
	}}
	tests := []struct {
		name     string
		prepare  func(w *world, s *runcontract.Spec)
		code     runcontract.ErrorCode
		phase    api.Phase
		says     string
		lastStep string // before publishing
	}{
		{
			"AWS cannot be reached",
			func(w *world, _ *runcontract.Spec) { w.on["identity"] = fail(errors.New("no route to host")) },
			runcontract.CodeInternal, api.PhasePreparingState, "no route to host", "identity",
		},
		{
			"the credential is refused",
			func(w *world, _ *runcontract.Spec) {
				w.on["identity"] = fail(&awsconfig.RefusedError{Reason: awsconfig.ReasonExpired, Detail: "ExpiredToken"})
			},
			runcontract.CodeCredentialRefused, api.PhasePreparingState, "the AWS credential is expired", "identity",
		},
		{
			"the bucket is refused",
			func(w *world, _ *runcontract.Spec) {
				w.on["bucket"] = fail(&awsconfig.RefusedError{Reason: awsconfig.ReasonDenied, Detail: "AccessDenied"})
			},
			runcontract.CodeStateBucket, api.PhasePreparingState, "not allowed", "bucket",
		},
		{
			"init fails",
			func(w *world, _ *runcontract.Spec) {
				w.on["init"] = fail(&terraform.Error{Verb: "init", Diagnostic: diagnostic})
			},
			runcontract.CodeTerraformInit, api.PhaseInit, "Boom (aws_vpc.this): It broke. Badly.", "init",
		},
		{
			"the state is locked",
			func(w *world, _ *runcontract.Spec) {
				w.on["plan"] = fail(&terraform.Error{
					Verb: "plan", Diagnostic: diagnostic,
					Lock: &api.StateLock{ID: "7", Who: "nonroot@pod", Created: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)},
				})
			},
			runcontract.CodeStateLocked, api.PhasePlan, "locked by nonroot@pod since 2026-11-30 09:00:00 UTC (lock id 7); wait until that has ended, or, if it is gone for good, remove the lock with the operation unlock", "plan",
		},
		{
			"the lock is left by a run that failed by itself",
			func(w *world, _ *runcontract.Spec) {
				w.on["apply"] = fail(&terraform.Error{Verb: "apply", Diagnostic: diagnostic, LockLeft: true})
			},
			runcontract.CodeTerraformApply, api.PhaseApply, "It broke. Badly.; its lock could not be removed: k.tflock in the bucket b", "apply",
		},
		{
			"the plan would replace the VPC",
			func(w *world, _ *runcontract.Spec) { w.changes = vpc },
			runcontract.CodeReplacementRefused, api.PhasePlan, "would replace the VPC (aws_vpc.this); nothing was changed", "show",
		},
		{
			"the state cannot be saved, whatever else happened",
			func(w *world, _ *runcontract.Spec) {
				w.on["apply"] = fail(&terraform.Error{Verb: "apply", Unsaved: []byte("{}"), Interrupted: true, LockLeft: true, Diagnostic: diagnostic, Lock: &api.StateLock{ID: "7"}})
			},
			runcontract.CodeStateNotSaved, api.PhaseApply,
			"could not save its state, which is kept as rescue/1.tfstate in the bucket b; start the run again, it is saved before anything else: Boom (aws_vpc.this): It broke. Badly.; its lock could not be removed: k.tflock in the bucket b", "apply",
		},
		{
			"Terraform is killed while it applies",
			func(w *world, _ *runcontract.Spec) {
				w.on["apply"] = fail(&terraform.Error{Verb: "apply", Killed: true})
			},
			runcontract.CodeStateNotSaved, api.PhaseApply, "out of memory", "apply",
		},
		{
			"Terraform is killed while it plans",
			func(w *world, _ *runcontract.Spec) { w.on["plan"] = fail(&terraform.Error{Verb: "plan", Killed: true}) },
			runcontract.CodeTerraformPlan, api.PhasePlan, "out of memory", "plan",
		},
		{
			"an output is missing",
			func(w *world, _ *runcontract.Spec) { delete(w.outputs, runcontract.OutputClusterCACertificate) },
			runcontract.CodeKubeconfig, api.PhasePublishing, "no output cluster_ca_certificate", "outputs",
		},
		{
			"the outputs Secret cannot be written",
			func(w *world, _ *runcontract.Spec) { w.on["open"] = fail(errors.New("forbidden")) },
			runcontract.CodePublish, api.PhasePreparingState, "forbidden", "open",
		},
		{
			"a spec of another runner",
			func(_ *world, s *runcontract.Spec) { s.Kind = runcontract.KindScaffold },
			runcontract.CodeInvalidSpec, api.PhasePreparingState, `kind "scaffold"`, "open",
		},
		{
			"an operation of another time",
			func(_ *world, s *runcontract.Spec) { s.Operation = "undo" },
			runcontract.CodeInvalidSpec, api.PhasePreparingState, `operation "undo"`, "open",
		},
		{
			"an unlock without a lock",
			func(_ *world, s *runcontract.Spec) { s.Operation = api.OperationUnlock },
			runcontract.CodeInvalidSpec, api.PhasePreparingState, `lock_id is empty`, "open",
		},
		{
			"a Kubernetes version that EKS does not have",
			func(w *world, s *runcontract.Spec) {
				s.KubernetesVersion = "1.29"
				w.on["version 1.29"] = fail(&eksversion.UnsupportedError{Version: "1.29", Region: "eu-west-1", Supported: []string{"1.36", "1.35"}})
			},
			runcontract.CodeVersionUnsupported, api.PhasePlan, "does not support Kubernetes 1.29; it supports 1.36, 1.35", "version 1.29",
		},
		{
			"a cluster that makes no token",
			func(w *world, s *runcontract.Spec) {
				s.KubeconfigAuth = api.KubeconfigAuthServiceAccount
				w.on["token"] = fail(errors.New("not within 1m30s"))
			},
			runcontract.CodeKubeconfig, api.PhasePublishing, "the cluster is there, but its kubeconfig cannot be made: not within 1m30s", "token",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(), spec()
			tt.prepare(w, &s)
			result := w.run(t.Context(), s)
			if result.Outcome != runcontract.OutcomeFailed || result.ErrorCode != tt.code || result.Phase != tt.phase {
				t.Errorf("%s %s in %s, want %s in %s", result.Outcome, result.ErrorCode, result.Phase, tt.code, tt.phase)
			}
			if !strings.Contains(result.Message, tt.says) {
				t.Errorf("message %q lacks %q", result.Message, tt.says)
			}
			steps := w.calls
			if tt.code != runcontract.CodePublish {
				steps = steps[:len(steps)-1]
			}
			if last := steps[len(steps)-1]; last != tt.lastStep {
				t.Errorf("the last step was %s, want %s", last, tt.lastStep)
			}
			if w.files[runcontract.KeyKubeconfig] != nil {
				t.Error("a kubeconfig was published")
			}
			if w.message.ErrorCode != tt.code {
				t.Errorf("termination message %+v", w.message)
			}
		})
	}
}

func TestRun_replacement_that_is_allowed_or_only_planned(t *testing.T) {
	t.Parallel()
	vpc := []*tfjson.ResourceChange{{
		Address: "aws_vpc.this", Mode: tfjson.ManagedResourceMode, Type: "aws_vpc", Name: "this",
		Change: &tfjson.Change{Actions: tfjson.Actions{tfjson.ActionDelete}},
	}}
	tests := []struct {
		name   string
		change func(*runcontract.Spec)
	}{
		{"allowed", func(s *runcontract.Spec) { s.AllowReplacement = true }},
		{"planned", func(s *runcontract.Spec) { s.Operation = api.OperationPlan }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(), spec()
			w.changes = vpc
			tt.change(&s)
			if result := w.run(t.Context(), s); result.Outcome != runcontract.OutcomeSucceeded {
				t.Errorf("result %+v", result)
			}
		})
	}
}

func TestRun_interrupted(t *testing.T) {
	t.Parallel()
	stopped := func(ctx context.Context) error {
		<-ctx.Done()
		return &terraform.Error{Verb: "apply", Interrupted: true}
	}
	tests := []struct {
		name    string
		prepare func(w *world, s *runcontract.Spec)
		outcome runcontract.Outcome
		code    runcontract.ErrorCode
		says    string
	}{
		{
			"by a signal", func(w *world, _ *runcontract.Spec) { w.on["apply"] = stopped },
			runcontract.OutcomeCancelled, runcontract.CodeInterrupted,
			"interrupted during the apply after 1 of 2 changes; the state is saved and its lock released",
		},
		{
			"by a signal, and the lock stays",
			func(w *world, _ *runcontract.Spec) {
				w.on["apply"] = func(ctx context.Context) error {
					<-ctx.Done()
					return &terraform.Error{Verb: "apply", Interrupted: true, LockLeft: true}
				}
			},
			runcontract.OutcomeCancelled, runcontract.CodeInterrupted,
			"interrupted during the apply after 1 of 2 changes; the state is saved; its lock could not be removed",
		},
		{
			"by a signal that comes too late",
			func(w *world, _ *runcontract.Spec) {
				w.on["apply"] = func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				}
			},
			runcontract.OutcomeSucceeded, "", "applied: 2 added, 0 changed, 0 removed",
		},
		{
			"while it looks for the bucket",
			func(w *world, _ *runcontract.Spec) {
				w.on["bucket"] = func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				}
			},
			runcontract.OutcomeCancelled, runcontract.CodeInterrupted, "interrupted (preparing the Terraform state)",
		},
		{
			"by its deadline",
			func(w *world, s *runcontract.Spec) {
				s.TimeoutSeconds = 30
				w.on["apply"] = stopped
			},
			runcontract.OutcomeFailed, runcontract.CodeDeadlineExceeded, "stopped by its deadline of 30 s during the apply",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, s := newWorld(), spec()
				tt.prepare(w, &s)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				defer time.AfterFunc(time.Minute, func() { cancel(runner.ErrInterrupted) }).Stop()
				result := w.run(ctx, s)
				if result.Outcome != tt.outcome || result.ErrorCode != tt.code || !strings.HasPrefix(result.Message, tt.says) {
					t.Errorf("%s %s %q, want %s %s %q", result.Outcome, result.ErrorCode, result.Message, tt.outcome, tt.code, tt.says)
				}
				if got := w.files[runcontract.KeyKubeconfig] != nil; got != (tt.outcome == runcontract.OutcomeSucceeded) {
					t.Errorf("kubeconfig published: %v", got)
				}
				if diff := cmp.Diff(result, w.result); diff != "" {
					t.Errorf("published result (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRun_that_cannot_publish_its_success_has_failed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.on["finish"] = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		start := time.Now()
		result := w.run(t.Context(), spec())
		if result.Outcome != runcontract.OutcomeFailed || result.ErrorCode != runcontract.CodePublish || result.Changes == nil {
			t.Errorf("result %+v", result)
		}
		if diff := cmp.Diff(result, w.message); diff != "" {
			t.Errorf("termination message (-want +got):\n%s", diff)
		}
		if took := time.Since(start); took != 5*time.Minute {
			t.Errorf("tried for %s", took)
		}
	})
}

func TestRun_after_a_signal_there_is_little_time_to_publish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancelCause(t.Context())
		w.on["outputs"] = func(ctx context.Context) error {
			cancel(runner.ErrInterrupted)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		w.on["finish"] = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		start := time.Now()
		result := w.run(ctx, spec())
		if result.ErrorCode != runcontract.CodeKubeconfig {
			t.Errorf("result %+v", result)
		}
		if took, limit := time.Since(start), time.Minute; took >= limit {
			t.Errorf("took %s; WaitDelay leaves %s", took, limit)
		}
	})
}

func TestWaitDelay(t *testing.T) {
	t.Parallel()
	for grace, want := range map[int]time.Duration{1200: 1140 * time.Second, 120: 60 * time.Second, 30: 15 * time.Second} {
		if got := WaitDelay(runcontract.Spec{GraceSeconds: grace}); got != want {
			t.Errorf("grace %d s: %s, want %s", grace, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		phase api.Phase
		event events.Event
		want  string
	}{
		{"a finished resource", api.PhaseApply, events.Event{Kind: events.KindApplyComplete, Text: "a: Creation complete"}, "[3/7] a: Creation complete"},
		{"a data source that was read", api.PhasePlan, events.Event{Kind: events.KindApplyComplete, Action: "read", Text: "data.a: Refresh complete"}, ""},
		{"a planned change", api.PhasePlan, events.Event{Kind: events.KindPlannedChange, Text: "a: Plan to create"}, "a: Plan to create"},
		{"a planned change that the apply repeats", api.PhaseApply, events.Event{Kind: events.KindPlannedChange, Text: "a: Plan to create"}, ""},
		{"a resource that takes long, each minute", api.PhaseApply, events.Event{Kind: events.KindApplyProgress, Text: "a: Still creating", Elapsed: 2 * time.Minute}, "a: Still creating"},
		{"and not in between", api.PhaseApply, events.Event{Kind: events.KindApplyProgress, Text: "a: Still creating", Elapsed: 130 * time.Second}, ""},
		{"nor in the first minute", api.PhaseApply, events.Event{Kind: events.KindApplyProgress, Text: "a: Still creating", Elapsed: 0}, ""},
		{"outputs", api.PhaseApply, events.Event{Kind: events.KindOutputs, Text: "Outputs: 3"}, ""},
		{
			"an error", api.PhaseApply,
			events.Event{Kind: events.KindDiagnostic, Diagnostic: &events.Diagnostic{Error: true, Summary: "Boom", Address: "a.b", Detail: "Details."}},
			"error: Boom (a.b)\nDetails.",
		},
		{"a warning", api.PhaseApply, events.Event{Kind: events.KindDiagnostic, Diagnostic: &events.Diagnostic{Summary: "Hm"}}, "warning: Hm"},
		{"a diagnostic without content", api.PhaseApply, events.Event{Kind: events.KindDiagnostic}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Line(tt.phase, tt.event, api.Progress{Done: 3, Total: 7})); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}
