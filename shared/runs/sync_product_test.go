package runs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// The dimensions of what sync may see. Not every combination occurs, but a cache
// may mix what was at two times, so that what must hold holds for all of them.

type rowCase struct {
	name string
	run  Run
}

func rowCases() []rowCase {
	var rows []rowCase
	phases := []api.Phase{api.PhaseStarting, api.PhasePulling, api.PhaseApply, api.PhasePublishing}
	for _, status := range Statuses() {
		for _, phase := range phases {
			run := Run{Status: status, Phase: phase, Message: "as it was", StartedAt: start}
			switch status {
			case api.StatusRunning:
			case api.StatusCancelling:
				run.CancelRequestedAt = start
			default: // nothing of it matters
				rows = append(rows, rowCase{string(status), run})
				continue
			}
			if phase == api.PhaseApply || phase == api.PhasePublishing {
				run.Progress = api.Progress{Done: 2, Total: 9}
			}
			rows = append(rows, rowCase{fmt.Sprintf("%s in %s", status, phase), run})
		}
	}
	rows = slices.CompactFunc(rows, func(a, b rowCase) bool { return a.name == b.name })
	given := Run{Status: api.StatusRunning, Phase: api.PhasePulling, Message: "no such image", ErrorCode: string(CodeImagePull), StartedAt: start}
	return append(rows, rowCase{"given up", given})
}

type jobCase struct {
	name string
	job  *batchv1.Job
	over bool // no pod of it will begin
}

func jobCases() []jobCase {
	deletedComplete := job(batchv1.JobComplete)
	deletedComplete.DeletionTimestamp = &metav1.Time{Time: start}
	return []jobCase{
		{"no Job", nil, true},
		{"a Job", job(), false},
		{"a deleted Job", deletedJob(), false},
		{"a Job about to fail", job(batchv1.JobFailureTarget), false},
		{"a Job about to succeed", job(batchv1.JobSuccessCriteriaMet), false},
		{"a failed Job", job(batchv1.JobFailed), true},
		{"a complete Job", job(batchv1.JobComplete), true},
		{"a complete Job that is deleted", deletedComplete, true},
	}
}

type podCase struct {
	name  string
	pods  []*corev1.Pod
	live  bool // it may be at work, or come to be
	begun bool
	says  runcontract.Outcome // of its termination message
}

func podCases() []podCase {
	creating := waits("PodInitializing", "")
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }
	reason := func(r string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = r, "the node says so" }
	}
	disrupted := func(r string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: r})
		}
	}
	oom := ended(137, "")
	oom.Terminated.Reason = "OOMKilled"
	unscheduled := &corev1.Pod{Status: corev1.PodStatus{
		Phase:      corev1.PodPending,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}},
	}}
	cases := []podCase{
		{name: "no pod"},
		{name: "a new pod", live: true, pods: []*corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodPending}}}},
		{name: "an unscheduled pod", live: true, pods: []*corev1.Pod{unscheduled}},
		{name: "a scheduled pod", live: true, pods: pod(corev1.PodPending, creating, creating)},
		{name: "a pod that never began and is deleted", live: true, pods: pod(corev1.PodPending, creating, creating, deleted)},
		{name: "cloning", live: true, begun: true, pods: pod(corev1.PodPending, running(), creating)},
		{name: "between the containers", live: true, begun: true, pods: pod(corev1.PodPending, ended(0, ""), creating)},
		{name: "running", live: true, begun: true, pods: pod(corev1.PodRunning, ended(0, ""), running())},
		{name: "running, deleted", live: true, begun: true, pods: pod(corev1.PodRunning, ended(0, ""), running(), deleted)},
		{name: "running, being evicted", live: true, begun: true, pods: pod(corev1.PodRunning, ended(0, ""), running(), deleted, disrupted("EvictionByEvictionAPI"))},
		{name: "running on a node that is lost", live: true, begun: true, pods: pod(corev1.PodRunning, ended(0, ""), running(), deleted, reason("NodeLost"))},
		{name: "of a node that does not answer", live: true, begun: true, pods: pod(corev1.PodUnknown, ended(0, ""), running())},
		{name: "ended, not noted yet", live: true, begun: true, pods: pod(corev1.PodRunning, ended(0, ""), ended(0, ""))},
		{name: "clone failed", begun: true, pods: pod(corev1.PodFailed, ended(67, "no such ref"), creating)},
		{name: "succeeded", begun: true, pods: pod(corev1.PodSucceeded, ended(0, ""), ended(0, ""))},
		{name: "succeeded with a result", begun: true, says: runcontract.OutcomeSucceeded, pods: pod(corev1.PodSucceeded, ended(0, ""), ended(0, `{"outcome":"succeeded"}`))},
		{name: "failed with a result", begun: true, says: runcontract.OutcomeFailed, pods: pod(corev1.PodFailed, ended(0, ""), ended(74, `{"outcome":"failed","error_code":"terraform_apply_failed"}`))},
		{name: "failed after a phase's word", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), ended(137, `{"phase":"apply"}`))},
		{name: "interrupted", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), ended(77, ""))},
		{name: "out of memory", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), oom)},
		{name: "Terraform out of memory", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), ended(int32(runcontract.ExitMemory), ""))},
		{name: "state not saved", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), ended(int32(runcontract.ExitStateNotSaved), ""))},
		{name: "killed", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), ended(137, ""))},
		{name: "ended by a signal", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), ended(143, ""))},
		{name: "a code of nobody's", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), ended(1, "oh no"))},
		{name: "evicted", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), ended(137, ""), reason("Evicted"))},
		{name: "evicted before it began", pods: pod(corev1.PodFailed, creating, creating, reason("Evicted"))},
		{name: "its node is gone", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), running(), disrupted("DeletionByPodGC"))},
		{name: "its deadline has passed", begun: true, pods: pod(corev1.PodFailed, ended(0, ""), ended(143, ""), reason("DeadlineExceeded"))},
		{name: "its deadline has passed before it began", pods: pod(corev1.PodFailed, creating, creating, reason("DeadlineExceeded"))},
		{
			name: "a second pod beside one that has failed", live: true, begun: true,
			pods: slices.Concat(pod(corev1.PodFailed, ended(0, ""), ended(137, "")), pod(corev1.PodRunning, ended(0, ""), running())),
		},
	}
	for _, why := range []string{"ErrImagePull", "InvalidImageName"} { // TestNext has the others
		cases = append(cases, podCase{name: why, live: true, pods: pod(corev1.PodPending, waits(why, "because"), creating)})
	}
	return cases
}

type eventCase struct {
	name     string
	problems []StartProblem
	read     bool
}

var eventCases = []eventCase{
	{name: "events not read"},
	{name: "no events", read: true},
	{name: "a quota", read: true, problems: []StartProblem{{Reason: "FailedCreate", Message: "exceeded quota: runs"}}},
	{name: "a policy", read: true, problems: []StartProblem{{Reason: "FailedCreate", Message: "denied the request"}}},
	{name: "a mount", read: true, problems: []StartProblem{{Reason: "FailedMount", Message: "no such secret"}}},
}

type outputCase struct {
	name string
	out  *Outputs
}

func outputCases() []outputCase {
	result := func(o runcontract.Outcome, code runcontract.ErrorCode, message string) *Outputs {
		return outputs(&runcontract.Progress{Phase: api.PhaseApply, Done: 5, Total: 9, UpdatedAt: start}, &runcontract.Result{Outcome: o, Phase: api.PhaseApply, ErrorCode: code, Message: message})
	}
	return []outputCase{
		{"outputs not read", nil},
		{"no outputs", outputs(nil, nil)},
		{"progress", outputs(&runcontract.Progress{Phase: api.PhaseApply, Done: 5, Total: 9, Current: "x", UpdatedAt: start.Add(time.Second), Message: "applying", Nodes: []api.Node{{Name: "worker-0"}}}, nil)},
		{"progress of an earlier phase", outputs(&runcontract.Progress{Phase: api.PhaseInit, Message: "init"}, nil)},
		{"a result without an outcome", result("", "", "")},
		{"succeeded", result(runcontract.OutcomeSucceeded, "", "")},
		{"failed", result(runcontract.OutcomeFailed, runcontract.CodeTerraformApply, "no")},
		{"failed without a word", result(runcontract.OutcomeFailed, "", "")},
		{"interrupted", result(runcontract.OutcomeFailed, runcontract.CodeInterrupted, "")},
		{"its state is not saved", result(runcontract.OutcomeFailed, runcontract.CodeStateNotSaved, "not saved")},
		{"cancelled", result(runcontract.OutcomeCancelled, "", "")},
		{"an outcome of a newer runner", result("suspended", "", "")},
	}
}

// TestNextKeepsItsPromises checks what must hold whatever is seen.
func TestNextKeepsItsPromises(t *testing.T) {
	t.Parallel()
	type point struct {
		row    rowCase
		job    jobCase
		pod    podCase
		event  eventCase
		output outputCase
		late   bool
	}
	bad := 0
	check := func(p point) {
		seen := Observation{Job: p.job.job, Pods: p.pod.pods, Problems: p.event.problems, EventsRead: p.event.read, Outputs: p.output.out}
		now := start.Add(time.Minute)
		if p.late {
			now = start.Add(2 * deadline)
		}
		row := p.row.run
		c := Next(row, seen, now, deadline)
		complain := func(format string, args ...any) {
			bad++
			if bad <= 20 {
				t.Errorf("%s; %s; %s; %s; %s; late %t: %s\ngot %+v", p.row.name, p.job.name, p.pod.name, p.event.name, p.output.name, p.late, fmt.Sprintf(format, args...), c)
			}
		}

		if row.Status == api.StatusQueued || Final(row.Status) {
			if !cmp.Equal(c, row.changing()) {
				complain("not sync's to change")
			}
			return
		}
		over := p.job.over && !p.pod.live
		if Final(c.Status) != over {
			complain("ended %t, although nothing is at work is %t", Final(c.Status), over)
		}
		if err := checkMove(row.Status, c.Status); err != nil {
			complain("%v", err)
		}
		if c.Status == api.StatusCancelled && row.Status != api.StatusCancelling || c.Status == api.StatusCancelling && row.Status != api.StatusCancelling {
			complain("cancelled without being asked")
		}
		if strings.TrimSpace(c.Message) == "" {
			complain("no message")
		}
		if later(c.Phase, row.Phase) != c.Phase {
			complain("phase goes back from %s", row.Phase)
		}
		if c.Progress.Done < row.Progress.Done || c.Progress.Done > c.Progress.Total && c.Progress.Total > 0 {
			complain("progress goes back or beyond")
		}
		if !known(runcontract.ErrorCode(c.ErrorCode)) && c.ErrorCode != "" {
			complain("unknown code")
		}

		said := p.pod.says
		if p.output.out != nil && p.output.out.Result != nil && p.output.out.Result.Outcome != "" {
			said = p.output.out.Result.Outcome
		}
		switch c.Status {
		case api.StatusSucceeded:
			if said != runcontract.OutcomeSucceeded || c.ErrorCode != "" || c.Phase != api.PhaseDone || c.Progress.Done != c.Progress.Total {
				complain("succeeded")
			}
		case api.StatusFailed:
			if said == runcontract.OutcomeSucceeded || c.ErrorCode == "" {
				complain("failed")
			}
			if row.Status == api.StatusCancelling && said == runcontract.OutcomeCancelled {
				complain("cancelled by its runner's word, and yet failed")
			}
		case api.StatusCancelled:
			if said == runcontract.OutcomeSucceeded || c.ErrorCode != "" {
				complain("cancelled")
			}
		default:
			wants := p.job.job != nil && p.job.job.DeletionTimestamp == nil && (c.Status == api.StatusCancelling || c.ErrorCode != "")
			if c.DeleteJob != wants {
				complain("delete the Job: want %t", wants)
			}
			stops := seen.pod() != nil && seen.pod().DeletionTimestamp != nil // Kubernetes has given it up already
			if p.late && !p.pod.begun && !stops && !seen.deleted() && row.Status == api.StatusRunning && p.pod.live && c.ErrorCode == "" {
				complain("not given up")
			}
			if c.Progress.Current != "" && c.Progress.Current != "x" {
				complain("current")
			}
		}
		if Final(c.Status) && (c.DeleteJob || c.Progress.Current != "") {
			complain("ended, and yet at something")
		}

		next, _, err := row.with(c, now)
		if err != nil {
			complain("%v", err)
			return
		}
		again := Next(next, seen, now, deadline)
		again.DeleteJob, c.DeleteJob = false, false
		if !cmp.Equal(c, again) {
			complain("a second look changes it: %s", cmp.Diff(c, again))
		}
	}
	n := 0
	for _, row := range rowCases() {
		for _, job := range jobCases() {
			for _, pod := range podCases() {
				for i, event := range eventCases {
					if pod.begun && i > 1 {
						break // only what keeps a pod from beginning is asked for
					}
					for _, output := range outputCases() {
						for _, late := range []bool{false, true} {
							n++
							check(point{row, job, pod, event, output, late})
						}
					}
				}
			}
		}
	}
	t.Logf("%d combinations, %d broken promises", n, bad)
}
