package runs

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

func TestStateTableKnowsEveryStatus(t *testing.T) {
	t.Parallel()
	if len(order) != len(transitions) {
		t.Errorf("order has %d statuses, the table %d", len(order), len(transitions))
	}
	for from, all := range transitions {
		if !slices.Contains(order, from) {
			t.Errorf("%s is not in the order", from)
		}
		for _, to := range all {
			if _, ok := transitions[to]; !ok {
				t.Errorf("%s may become %s, which the table does not have", from, to)
			}
		}
	}
	want := []api.Status{api.StatusSucceeded, api.StatusFailed, api.StatusCancelled}
	if diff := cmp.Diff(want, FinalStatuses()); diff != "" {
		t.Errorf("final statuses (-want +got):\n%s", diff)
	}
	if Final("no such status") {
		t.Error("an unknown status is final")
	}
}

func TestCheckMove(t *testing.T) {
	t.Parallel()
	tests := []struct {
		from, to api.Status
		allowed  bool
	}{
		{api.StatusQueued, api.StatusRunning, true},
		{api.StatusQueued, api.StatusQueued, true},
		{api.StatusRunning, api.StatusRunning, true},
		{api.StatusRunning, api.StatusQueued, false},
		{api.StatusRunning, api.StatusCancelled, false},
		{api.StatusQueued, api.StatusSucceeded, false},
		{api.StatusSucceeded, api.StatusSucceeded, false},
		{api.StatusSucceeded, api.StatusFailed, false},
		{api.StatusFailed, api.StatusRunning, false},
		{"no such status", api.StatusRunning, false},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s to %s", test.from, test.to), func(t *testing.T) {
			t.Parallel()
			err := checkMove(test.from, test.to)
			if (err == nil) != test.allowed {
				t.Fatalf("got %v, want allowed %t", err, test.allowed)
			}
			if err != nil && !errors.Is(err, ErrConflict) {
				t.Errorf("%v does not match ErrConflict", err)
			}
		})
	}
}

func TestPredecessors(t *testing.T) {
	t.Parallel()
	want := map[api.Status][]api.Status{
		api.StatusQueued:     {api.StatusQueued},
		api.StatusRunning:    {api.StatusQueued, api.StatusRunning},
		api.StatusCancelling: {api.StatusRunning, api.StatusCancelling},
		api.StatusSucceeded:  {api.StatusRunning, api.StatusCancelling},
		api.StatusFailed:     {api.StatusQueued, api.StatusRunning, api.StatusCancelling},
		api.StatusCancelled:  {api.StatusQueued, api.StatusCancelling},
	}
	for to, from := range want {
		if diff := cmp.Diff(from, Predecessors(to)); diff != "" {
			t.Errorf("predecessors of %s (-want +got):\n%s", to, diff)
		}
	}
}

func TestLaterPhase(t *testing.T) {
	t.Parallel()
	tests := []struct{ a, b, want api.Phase }{
		{api.PhaseInit, api.PhaseApply, api.PhaseApply},
		{api.PhaseApply, api.PhaseInit, api.PhaseApply},
		{api.PhaseApply, api.PhaseApply, api.PhaseApply},
		{"", api.PhaseStarting, api.PhaseStarting},
		{api.PhaseApply, "from_a_newer_runner", api.PhaseApply},
		{api.PhaseApply, "", api.PhaseApply},
	}
	for _, test := range tests {
		if got := later(test.a, test.b); got != test.want {
			t.Errorf("later(%q, %q) = %q, want %q", test.a, test.b, got, test.want)
		}
	}
}

// TestDiagram compares state_machine.md with the table; -update rewrites its
// diagram.
func TestDiagram(t *testing.T) {
	t.Parallel()
	const file, open, end = "state_machine.md", "```mermaid\n", "```"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), open)
	drawn, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no diagram", file)
	}
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(file, []byte(before+open+Mermaid()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(Mermaid(), drawn); diff != "" {
		t.Errorf("%s is not what the table says; run go test with -update (-want +got):\n%s", file, diff)
	}
}

// TestNoWalkLeavesTheTable feeds runs with random sequences of random
// observations: no status changes but by the table, no final run changes at all,
// and no phase goes back.
func TestNoWalkLeavesTheTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := start
		run := Run{
			Status: rapid.SampledFrom(Statuses()).Draw(t, "status"), Phase: rapid.SampledFrom(phases).Draw(t, "phase"),
			ErrorCode: rapid.SampledFrom([]string{"", string(CodeImagePull)}).Draw(t, "code"), StartedAt: now,
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
			seen := anything(t)
			c := Next(run, seen, now, 10*time.Minute)
			next, changed, err := run.with(c, now)
			if err != nil {
				t.Fatalf("%s with %+v: %v", run.Status, seen, err)
			}
			if Final(run.Status) && changed {
				t.Fatalf("a %s run changed", run.Status)
			}
			if later(next.Phase, run.Phase) != next.Phase {
				t.Fatalf("phase went from %s back to %s", run.Phase, next.Phase)
			}
			if Final(next.Status) != !next.FinishedAt.IsZero() && next.Status != run.Status {
				t.Fatalf("%s has end time %v", next.Status, next.FinishedAt)
			}
			if Final(next.Status) && !Final(run.Status) && !seen.ended() {
				t.Fatalf("ended while something was at work: %+v", seen)
			}
			if next.Status == api.StatusFailed && run.Status != next.Status && (next.Message == "" && run.ErrorCode == "" || next.ErrorCode == "") {
				t.Fatalf("failed without a word: %+v", next)
			}
			run = next
		}
	})
}

// anything draws an observation; most make no sense, which is the point.
func anything(t *rapid.T) Observation {
	var seen Observation
	if rapid.Bool().Draw(t, "job") {
		seen.Job = &batchv1.Job{}
		if rapid.Bool().Draw(t, "deleting") {
			seen.Job.DeletionTimestamp = &metav1.Time{Time: start}
		}
		if kind := rapid.SampledFrom([]batchv1.JobConditionType{"", batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget}).Draw(t, "condition"); kind != "" {
			seen.Job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "pods") {
		pod := podIn(rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}).Draw(t, "pod phase"))
		pod.Status.Reason = rapid.SampledFrom([]string{"", "Evicted", "DeadlineExceeded"}).Draw(t, "pod reason")
		for _, name := range []string{"git-clone", "terraform"} {
			var state corev1.ContainerState
			switch rapid.IntRange(0, 3).Draw(t, "state") {
			case 1:
				state.Waiting = &corev1.ContainerStateWaiting{Reason: rapid.SampledFrom([]string{"ContainerCreating", "ErrImagePull", "InvalidImageName"}).Draw(t, "waiting")}
			case 2:
				state.Running = &corev1.ContainerStateRunning{}
			case 3:
				state.Terminated = &corev1.ContainerStateTerminated{
					ExitCode: rapid.SampledFrom([]int32{0, 1, 66, 74, 137, 143}).Draw(t, "exit code"),
					Message:  rapid.SampledFrom([]string{"", "text", `{"outcome":"failed","error_code":"interrupted"}`, `{"outcome":"succeeded"}`, `{"phase":"plan"}`}).Draw(t, "termination message"),
				}
			}
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, State: state})
		}
		seen.Pods = append(seen.Pods, pod)
	}
	if rapid.Bool().Draw(t, "outputs") {
		seen.Outputs = &Outputs{Progress: &runcontract.Progress{
			Phase: rapid.SampledFrom(append(phases, "unknown")).Draw(t, "reported phase"), Done: rapid.IntRange(-1, 9).Draw(t, "done"), Total: 9,
		}}
		if rapid.Bool().Draw(t, "result") {
			seen.Outputs.Result = &runcontract.Result{
				Outcome: rapid.SampledFrom([]runcontract.Outcome{"", runcontract.OutcomeSucceeded, runcontract.OutcomeFailed, runcontract.OutcomeCancelled}).Draw(t, "outcome"),
				Phase:   rapid.SampledFrom(phases).Draw(t, "result phase"),
			}
		}
	}
	return seen
}
