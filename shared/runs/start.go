package runs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubeopera/platform/shared/runcontract"
)

// problem is what keeps a pod from going on.
type problem struct {
	code    runcontract.ErrorCode
	message string
	fatal   bool // waiting cannot help
	stop    bool // a notice about a pod that is stopping, not about its start
}

// waiting says what a container's waiting reason means. Reasons that are not
// here, such as ContainerCreating, are no problem.
var waiting = map[string]struct {
	code  runcontract.ErrorCode
	text  string
	fatal bool
}{
	"ErrImagePull":               {code: CodeImagePull, text: "its image cannot be pulled"},
	"ImagePullBackOff":           {code: CodeImagePull, text: "its image cannot be pulled"},
	"RegistryUnavailable":        {code: CodeImagePull, text: "the registry of its image cannot be reached"},
	"ImageInspectError":          {code: CodeImagePull, text: "its image cannot be read"},
	"SignatureValidationFailed":  {code: CodeImagePull, text: "the signature of its image was refused"},
	"InvalidImageName":           {code: CodeImagePull, text: "the name of its image is not valid", fatal: true},
	"ErrImageNeverPull":          {code: CodeImagePull, text: "its image is not on the node and must not be pulled", fatal: true},
	"CreateContainerConfigError": {code: CodeConfigMissing, text: "a ConfigMap, a Secret or a key that it needs is missing"},
	"CreateContainerError":       {code: CodeContainerStart, text: "the node cannot create it"},
	"RunContainerError":          {code: CodeContainerStart, text: "the node cannot run it"},
	"PreStartHookError":          {code: CodeContainerStart, text: "the node cannot prepare it"},
	"CreatePodSandboxError":      {code: CodeContainerStart, text: "the node cannot create the pod's sandbox"},
	"CrashLoopBackOff":           {code: CodeContainerStart, text: "it ends again and again"},
}

// obstacle is what keeps the run's pod from going on now, or nil.
func obstacle(seen Observation) *problem {
	pod := seen.pod()
	if pod == nil {
		return refusal(seen.Problems)
	}
	if why := stopping(pod); why != "" {
		return &problem{message: why, stop: true}
	}
	for _, s := range containers(pod) {
		w := s.State.Waiting
		if w == nil {
			continue
		}
		if known, ok := waiting[w.Reason]; ok {
			text := fmt.Sprintf("container %s (image %s) does not start: %s", s.Name, image(pod, s), known.text)
			return &problem{code: known.code, message: sentence(text, w.Message), fatal: known.fatal}
		}
	}
	if seen.Begun() {
		return nil
	}
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return &problem{code: CodeUnschedulable, message: sentence("no node can take the run's pod", c.Message)}
	}
	return mountProblem(seen.Problems)
}

// refusal is why the Job controller cannot create the pod: quota or admission.
func refusal(events []StartProblem) *problem {
	for _, e := range events {
		if e.Reason != "FailedCreate" {
			continue
		}
		p := &problem{code: CodePodRefused, message: sentence("Kubernetes refuses to create the run's pod", e.Message)}
		// The event carries no code; the text is the quota plugin's own.
		if strings.Contains(e.Message, "exceeded quota") {
			p.code, p.message = CodeQuota, sentence("the namespace's quota has no room for the run's pod", e.Message)
		}
		return p
	}
	return nil
}

// mountProblem is why a pod that has a node does not start, as far as only
// events tell: a missing ConfigMap or Secret volume, a sandbox that fails.
func mountProblem(events []StartProblem) *problem {
	for _, e := range events {
		switch e.Reason {
		case "FailedMount", "FailedAttachVolume", "FailedMapVolume":
			return &problem{code: CodeConfigMissing, message: sentence("a volume of the run's pod cannot be mounted", e.Message)}
		case "FailedCreatePodSandBox":
			return &problem{code: CodeContainerStart, message: sentence("the node cannot create the pod's sandbox", e.Message)}
		case "FailedScheduling":
			return &problem{code: CodeUnschedulable, message: sentence("no node can take the run's pod", e.Message)}
		}
	}
	return nil
}

// giveUp ends the wait for a pod, or for its next container, that does not start.
func giveUp(c Change, seen Observation, startedAt, now time.Time, deadline time.Duration) Change {
	in := obstacle(seen)
	if in != nil && in.stop || in == nil && seen.Begun() || seen.deleted() {
		return c
	}
	since := waitingSince(seen, startedAt)
	late := deadline > 0 && !since.IsZero() && now.Sub(since) >= deadline
	switch {
	case in != nil && in.fatal:
		c.Message = in.message
	case in != nil && late:
		c.Message = fmt.Sprintf("%s; given up after %s", in.message, deadline)
	case late:
		in = &problem{code: CodeNotStarted}
		_, text := where(seen)
		c.Message = fmt.Sprintf("the run's pod did not start within %s: %s", deadline, text)
	default:
		return c
	}
	c.ErrorCode = string(in.code)
	c.DeleteJob = true
	return c
}

// waitingSince is when the container that has not started could have: when the
// one before it ended, else when the Job was created.
func waitingSince(seen Observation, startedAt time.Time) time.Time {
	since := startedAt
	if pod := seen.pod(); pod != nil {
		for _, s := range containers(pod) {
			if t := s.State.Terminated; t != nil && t.FinishedAt.After(since) {
				since = t.FinishedAt.Time
			}
		}
	}
	return since
}

// deleted says that somebody has deleted the Job, so that nothing will start.
func (o Observation) deleted() bool { return o.Job == nil || !o.Job.DeletionTimestamp.IsZero() }

// image is a container's image as the pod asks for it; the status may hold none yet.
func image(pod *corev1.Pod, s corev1.ContainerStatus) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == s.Name {
			return c.Image
		}
	}
	return s.Image
}

// sentence joins what we know with what Kubernetes says, if it says anything.
func sentence(ours, theirs string) string {
	if theirs == "" {
		return ours
	}
	return ours + ": " + strings.TrimSpace(theirs)
}
