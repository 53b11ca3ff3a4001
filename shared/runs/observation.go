package runs

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubeopera/platform/shared/runcontract"
)

// Observation is what can be seen of a run in Kubernetes.
type Observation struct {
	Job  *batchv1.Job  // nil: there is none
	Pods []*corev1.Pod // the run's pods, oldest first

	// Problems says why the pod has not started; EventsRead that it was looked for.
	Problems   []StartProblem
	EventsRead bool

	// Outputs is what the runner published; nil: not read.
	Outputs *Outputs
}

// StartProblem is a warning event of the Job or of a pod that has not started.
type StartProblem struct {
	Reason  string // FailedCreate, FailedMount, FailedScheduling, Failed, …
	Message string
}

// Outputs is what a runner has published, as far as it can be read.
type Outputs struct {
	Progress *runcontract.Progress
	Result   *runcontract.Result
}

// pod is the newest pod: the one that counts.
func (o Observation) pod() *corev1.Pod {
	if len(o.Pods) == 0 {
		return nil
	}
	return o.Pods[len(o.Pods)-1]
}

// ended says that nothing of the run is at work any more, and nothing will be.
// That the Job has ended is not enough: its pod may be saving its work still.
func (o Observation) ended() bool {
	return (o.Job == nil || jobEnd(o.Job) != nil) && !slices.ContainsFunc(o.Pods, podLive)
}

// leaving says that the pod's object, and with it the log, goes with its end.
func (o Observation) leaving() bool {
	pod := o.pod()
	return pod != nil && o.Begun() && (o.deleted() || !pod.DeletionTimestamp.IsZero())
}

// progress is what the runner published last of how far it is, or nil.
func (o Observation) progress() *runcontract.Progress {
	if o.Outputs == nil {
		return nil
	}
	return o.Outputs.Progress
}

// Begun says that a container of the run has begun, so that it has a log and
// needs no explanation of why it has not.
func (o Observation) Begun() bool {
	return slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(containers(p), func(c corev1.ContainerStatus) bool {
			return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
		})
	})
}

// podLive says that containers of the pod may still run.
func podLive(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// jobEnd is the condition that a finished Job has.
func jobEnd(job *batchv1.Job) *batchv1.JobCondition {
	for i, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// containers are the statuses of a pod's containers in the order in which they run.
func containers(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

// condition is a pod's condition of that type, or nil.
func condition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}
