package runs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// end decides how a run ended of which nothing is at work any more. What the
// runner published decides; then its termination message; then how the
// container, the pod and the Job ended.
func end(c Change, seen Observation) Change {
	if p := seen.progress(); p != nil { // newer than what the last sweep saw
		was := c.Message
		c = report(c, *p)
		c.Message = was
	}
	result := outcome(seen)
	c.Phase = later(c.Phase, result.Phase)
	c.Progress.Current = ""
	if result.Changes != nil {
		c.Details.Changes = result.Changes
	}
	if result.Lock != nil {
		c.Details.Lock = result.Lock
	}
	if result.Scaffold != nil {
		c.Details.Scaffold = result.Scaffold
	}

	if result.Outcome == runcontract.OutcomeSucceeded {
		return Change{
			Status: api.StatusSucceeded, Phase: api.PhaseDone, Message: success(result), Details: c.Details,
			Progress: api.Progress{Done: c.Progress.Total, Total: c.Progress.Total},
		}
	}
	code, message := failure(seen, result)
	own := result.Outcome == runcontract.OutcomeFailed && code != runcontract.CodeInterrupted && code != CodeEvicted ||
		result.Outcome == "" && exitedBy(seen, code)
	if c.Status == api.StatusCancelling && !own {
		c.Status, c.ErrorCode, c.Message = api.StatusCancelled, "", cancelled(c.Phase, result)
		return c
	}
	c.Status = api.StatusFailed
	if c.ErrorCode != "" && !own { // given up before it started: the reason is in the row
		return c
	}
	c.ErrorCode, c.Message = string(code), message
	return c
}

// exitedBy says that a container's exit code, one of the runner's own, stands for
// a failure that no interrupt explains.
func exitedBy(seen Observation, code runcontract.ErrorCode) bool {
	pod := seen.pod()
	if pod == nil || code == runcontract.CodeInterrupted {
		return false
	}
	dead := deadContainer(pod)
	if dead == nil {
		return false
	}
	of, ok := runcontract.ExitCode(dead.State.Terminated.ExitCode).Code()
	return ok && of == code
}

// cancelled says how a run ended that was asked to.
func cancelled(phase api.Phase, result runcontract.Result) string {
	switch {
	case result.Outcome != "":
		return sentence("cancelled", result.Message)
	case later(phase, api.PhasePreparingState) != phase:
		return "cancelled before it began its work"
	}
	return fmt.Sprintf("cancelled in phase %s; the runner left no result", phase) + unsaved(phase)
}

// outcome is the runner's own word on how the run ended. Its Outcome is empty if
// there is none; what was said in an earlier phase is still there then.
func outcome(seen Observation) runcontract.Result {
	var best runcontract.Result
	if seen.Outputs != nil && seen.Outputs.Result != nil {
		best = *seen.Outputs.Result
	}
	if pod := seen.pod(); pod != nil && best.Outcome == "" {
		for _, s := range containers(pod) {
			if s.State.Terminated == nil {
				continue
			}
			if r, ok := parseResult(s.State.Terminated.Message); ok {
				best = r
			}
		}
	}
	return best
}

// parseResult reads a termination message; ok is false if it is no result.
func parseResult(text string) (runcontract.Result, bool) {
	var r runcontract.Result
	if !strings.HasPrefix(strings.TrimSpace(text), "{") || json.Unmarshal([]byte(text), &r) != nil {
		return runcontract.Result{}, false
	}
	return r, true
}

func success(r runcontract.Result) string {
	switch {
	case r.Message != "":
		return r.Message
	case r.Changes != nil:
		return fmt.Sprintf("done: %d added, %d changed, %d removed", r.Changes.Add, r.Changes.Change, r.Changes.Remove)
	default:
		return "done"
	}
}

// failure explains a run that did not succeed.
func failure(seen Observation, result runcontract.Result) (runcontract.ErrorCode, string) {
	pod := seen.pod()
	disrupted := ""
	if pod != nil {
		disrupted = disruption(pod)
	}
	if result.Outcome != "" {
		code, message := reported(result)
		if disrupted != "" && code == runcontract.CodeInterrupted {
			return CodeEvicted, fmt.Sprintf("the run's pod was stopped (%s): %s", disrupted, message)
		}
		return code, message
	}
	if pod == nil {
		return lost(seen.Job)
	}
	if pod.Status.Reason == "DeadlineExceeded" {
		return runcontract.CodeDeadlineExceeded, "Kubernetes ended the run's pod at its deadline; start the run again to go on from what was saved"
	}
	dead := deadContainer(pod)
	if dead != nil && dead.State.Terminated.Reason == "OOMKilled" {
		return runcontract.CodeMemory, outOfMemory(pod, dead.Name, result.Phase)
	}
	if disrupted != "" {
		return CodeEvicted, fmt.Sprintf("the run's pod was stopped (%s) before it reported a result; start the run again to go on from what was saved", disrupted)
	}
	if dead != nil {
		return exit(*dead)
	}
	if pod.Status.Phase == corev1.PodSucceeded || seen.Job != nil && succeeded(seen.Job) {
		return CodeResultMissing, "the runner ended without an error but published no result; start the run again"
	}
	return lost(seen.Job)
}

// reported is what a runner's result says of its failure.
func reported(r runcontract.Result) (runcontract.ErrorCode, string) {
	code := r.ErrorCode
	if code == "" {
		code = runcontract.CodeInternal
		if r.Outcome == runcontract.OutcomeCancelled {
			code = runcontract.CodeInterrupted
		}
	}
	message := r.Message
	if message == "" {
		message = sentences[code]
	}
	if d := r.Diagnostic; d != nil && d.Summary != "" && !strings.Contains(message, d.Summary) {
		text := d.Summary
		if d.Address != "" {
			text = d.Address + ": " + text
		}
		message = sentence(message, sentence(text, d.Detail))
	}
	if message == "" {
		message = "the run failed with " + string(code)
	}
	return code, message
}

// exit explains a container that ended without a result.
func exit(s corev1.ContainerStatus) (runcontract.ErrorCode, string) {
	t := s.State.Terminated
	said, during := t.Message, api.Phase("")
	if r, ok := parseResult(said); ok { // what it was doing, not why it ended
		said, during = "", r.Phase
	}
	if code, ok := runcontract.ExitCode(t.ExitCode).Code(); ok {
		return code, sentence(sentences[code], said)
	}
	how := fmt.Sprintf("container %s ended with exit code %d", s.Name, t.ExitCode)
	switch {
	case t.ExitCode == 137:
		how = fmt.Sprintf("container %s was killed", s.Name)
	case t.ExitCode == 143:
		how = fmt.Sprintf("container %s was told to stop and did so at once", s.Name)
	case t.ExitCode > 128 && t.ExitCode < 128+65:
		how = fmt.Sprintf("container %s was ended by signal %d", s.Name, t.ExitCode-128)
	case t.Reason != "" && t.Reason != "Error":
		how = fmt.Sprintf("container %s ended with exit code %d (%s)", s.Name, t.ExitCode, t.Reason)
	}
	if during != "" {
		how += " in phase " + string(during)
	}
	how += "; the run's log may say why" + unsaved(during)
	return CodeContainer, sentence(how, said)
}

// unsaved says what may be left of a Terraform that ended in a phase in which it
// changes things, and nothing for other phases.
func unsaved(phase api.Phase) string {
	if phase == api.PhaseApply || phase == api.PhaseDestroy {
		return ". The state may lack the newest resources, and its lock may still be held"
	}
	return ""
}

// lost explains a run whose Job or pod is gone without a result.
func lost(job *batchv1.Job) (runcontract.ErrorCode, string) {
	const advice = "start the run again: it goes on from what was saved"
	if job == nil {
		return CodeLost, "the run's Kubernetes Job was deleted before the run reported a result; " + advice
	}
	why := "no reason given"
	if c := jobEnd(job); c != nil && (c.Reason != "" || c.Message != "") {
		why = sentence(c.Reason, c.Message)
	}
	return CodeLost, fmt.Sprintf("the run's pod is gone and reported no result (%s); %s", why, advice)
}

func succeeded(job *batchv1.Job) bool {
	c := jobEnd(job)
	return c != nil && c.Type == batchv1.JobComplete
}

// deadContainer is the first container that ended with an error, or nil.
func deadContainer(pod *corev1.Pod) *corev1.ContainerStatus {
	for _, s := range containers(pod) {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			return &s
		}
	}
	return nil
}

// disruption says what ended a pod from outside, if anything did.
func disruption(pod *corev1.Pod) string {
	if c := condition(pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		return sentence(c.Reason, c.Message)
	}
	switch pod.Status.Reason {
	case "Evicted", "NodeLost", "NodeShutdown", "Terminated", "Preempting", "NodeAffinity", "Shutdown", "UnexpectedAdmissionError":
		return sentence(pod.Status.Reason, pod.Status.Message)
	}
	return ""
}

func outOfMemory(pod *corev1.Pod, container string, phase api.Phase) string {
	var b strings.Builder
	fmt.Fprintf(&b, "container %s was killed because it used more memory than it may have", container)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if limit := c.Resources.Limits.Memory(); c.Name == container && !limit.IsZero() {
			fmt.Fprintf(&b, " (limit %s)", limit.String())
		}
	}
	if phase != "" {
		fmt.Fprintf(&b, " in phase %s", phase)
	}
	b.WriteString("; raise the memory limit and start the run again: it goes on from what was saved")
	return b.String()
}
