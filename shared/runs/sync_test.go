package runs

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

var start = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

const deadline = 10 * time.Minute

// podIn is a pod with the init container git-clone and the container terraform.
func podIn(phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		Spec: corev1.PodSpec{
			NodeName:       "node-1",
			InitContainers: []corev1.Container{{Name: "git-clone", Image: "runner:9"}},
			Containers: []corev1.Container{{
				Name: "terraform", Image: "runner:9",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}},
			}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start)}}
}

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.NewTime(start.Add(time.Minute))}}
}

// pod builds a pod in which the two containers are in those states.
func pod(phase corev1.PodPhase, clone, terraform corev1.ContainerState, edit ...func(*corev1.Pod)) []*corev1.Pod {
	p := podIn(phase)
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "git-clone", State: clone}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "terraform", State: terraform}}
	for _, f := range edit {
		f(p)
	}
	return []*corev1.Pod{p}
}

func job(conditions ...batchv1.JobConditionType) *batchv1.Job {
	j := &batchv1.Job{}
	for _, c := range conditions {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
			Type: c, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit",
		})
	}
	return j
}

func deletedJob() *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: start}}}
}

func outputs(p *runcontract.Progress, r *runcontract.Result) *Outputs {
	return &Outputs{Progress: p, Result: r}
}

func TestNext(t *testing.T) {
	t.Parallel()
	creating := waits("PodInitializing", "")
	live := Run{Status: api.StatusRunning, Phase: api.PhaseStarting, StartedAt: start}
	at := func(r Run, phase api.Phase, message string) Run { r.Phase, r.Message = phase, message; return r }
	cancelling := at(live, api.PhaseApply, "")
	cancelling.Status, cancelling.CancelRequestedAt = api.StatusCancelling, start
	refused := at(live, api.PhasePulling, "no such image")
	refused.ErrorCode = string(CodeImagePull)

	type want struct {
		status  api.Status
		phase   api.Phase
		code    runcontract.ErrorCode
		message []string // parts
		delete  bool
	}
	tests := []struct {
		name  string
		run   Run
		seen  Observation
		after time.Duration
		want  want
	}{
		// Before anything has begun.
		{
			name: "a Job without a pod waits", run: live,
			seen: Observation{Job: job(), EventsRead: true},
			want: want{status: api.StatusRunning, phase: api.PhaseStarting, message: []string{"waiting for Kubernetes to create"}},
		},
		{
			name: "a pod quota is said at once", run: live,
			seen: Observation{Job: job(), EventsRead: true, Problems: []StartProblem{{Reason: "FailedCreate", Message: `pods "x" is forbidden: exceeded quota: runs`}}},
			want: want{status: api.StatusRunning, phase: api.PhaseStarting, message: []string{"quota has no room", "exceeded quota: runs"}},
		},
		{
			name: "a pod quota fails at the start deadline", run: live, after: deadline,
			seen: Observation{Job: job(), EventsRead: true, Problems: []StartProblem{{Reason: "FailedCreate", Message: `pods "x" is forbidden: exceeded quota: runs`}}},
			want: want{status: api.StatusRunning, phase: api.PhaseStarting, code: CodeQuota, message: []string{"exceeded quota: runs", "given up after 10m"}, delete: true},
		},
		{
			name: "an admission refusal fails at the start deadline", run: live, after: deadline,
			seen: Observation{Job: job(), EventsRead: true, Problems: []StartProblem{{Reason: "FailedCreate", Message: `violates PodSecurity "restricted"`}}},
			want: want{status: api.StatusRunning, phase: api.PhaseStarting, code: CodePodRefused, message: []string{"refuses to create", "PodSecurity"}, delete: true},
		},
		{
			name: "a pod that never comes fails at the start deadline", run: live, after: deadline,
			seen: Observation{Job: job(), EventsRead: true},
			want: want{status: api.StatusRunning, phase: api.PhaseStarting, code: CodeNotStarted, message: []string{"did not start within 10m"}, delete: true},
		},
		{
			name: "no node takes the pod", run: live,
			seen: Observation{Job: job(), EventsRead: true, Pods: []*corev1.Pod{{Status: corev1.PodStatus{
				Phase:      corev1.PodPending,
				Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}},
			}}}},
			want: want{status: api.StatusRunning, phase: api.PhaseStarting, message: []string{"no node can take", "0/3 nodes"}},
		},
		{
			name: "no node takes the pod until the start deadline", run: live, after: deadline,
			seen: Observation{Job: job(), Pods: []*corev1.Pod{{Status: corev1.PodStatus{
				Phase:      corev1.PodPending,
				Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}},
			}}}},
			want: want{status: api.StatusRunning, phase: api.PhaseStarting, code: CodeUnschedulable, message: []string{"0/3 nodes"}, delete: true},
		},
		{
			name: "a scheduled pod pulls", run: live,
			seen: Observation{Job: job(), EventsRead: true, Pods: pod(corev1.PodPending, creating, creating)},
			want: want{status: api.StatusRunning, phase: api.PhasePulling, message: []string{"pulling images"}},
		},
		{
			name: "an image that cannot be pulled is said at once", run: live,
			seen: Observation{Job: job(), Pods: pod(corev1.PodPending, waits("ErrImagePull", "manifest unknown"), creating)},
			want: want{status: api.StatusRunning, phase: api.PhasePulling, message: []string{"git-clone", "runner:9", "cannot be pulled", "manifest unknown"}},
		},
		{
			name: "an image that cannot be pulled fails at the start deadline", run: live, after: deadline,
			seen: Observation{Job: job(), Pods: pod(corev1.PodPending, waits("ImagePullBackOff", "Back-off"), creating)},
			want: want{status: api.StatusRunning, phase: api.PhasePulling, code: CodeImagePull, message: []string{"cannot be pulled: Back-off; given up after 10m"}, delete: true},
		},
		{
			name: "an image name that is not valid fails at once", run: live,
			seen: Observation{Job: job(), Pods: pod(corev1.PodPending, waits("InvalidImageName", "bad"), creating)},
			want: want{status: api.StatusRunning, phase: api.PhasePulling, code: CodeImagePull, message: []string{"name of its image is not valid"}, delete: true},
		},
		{
			name: "the second container's image counts from the end of the first", run: at(live, api.PhaseCloning, ""), after: deadline,
			seen: Observation{Job: job(), Pods: pod(corev1.PodPending, ended(0, ""), waits("ErrImagePull", "gone"))},
			want: want{status: api.StatusRunning, phase: api.PhaseCloning, message: []string{"container terraform", "gone"}},
		},
		{
			name: "the second container's image fails at its own deadline", run: at(live, api.PhaseCloning, ""), after: deadline + time.Minute,
			seen: Observation{Job: job(), Pods: pod(corev1.PodPending, ended(0, ""), waits("ErrImagePull", "gone"))},
			want: want{status: api.StatusRunning, phase: api.PhaseCloning, code: CodeImagePull, message: []string{"gone"}, delete: true},
		},
		{
			name: "missing configuration", run: live, after: deadline,
			seen: Observation{Job: job(), Pods: pod(corev1.PodPending, waits("CreateContainerConfigError", `secret "x" not found`), creating)},
			want: want{status: api.StatusRunning, phase: api.PhasePulling, code: CodeConfigMissing, message: []string{`secret "x" not found`}, delete: true},
		},
		{
			name: "a volume that cannot be mounted shows in events only", run: live,
			seen: Observation{Job: job(), EventsRead: true, Pods: pod(corev1.PodPending, creating, creating), Problems: []StartProblem{{Reason: "FailedMount", Message: `configmap "y" not found`}}},
			want: want{status: api.StatusRunning, phase: api.PhasePulling, message: []string{"cannot be mounted", `configmap "y" not found`}},
		},
		{
			name: "a look without events keeps what is known", run: at(live, api.PhasePulling, "a volume is missing"),
			seen: Observation{Job: job(), Pods: pod(corev1.PodPending, creating, creating)},
			want: want{status: api.StatusRunning, phase: api.PhasePulling, message: []string{"a volume is missing"}},
		},
		{
			name: "a look with events forgets what is no more", run: at(live, api.PhasePulling, "a volume is missing"),
			seen: Observation{Job: job(), EventsRead: true, Pods: pod(corev1.PodPending, creating, creating)},
			want: want{status: api.StatusRunning, phase: api.PhasePulling, message: []string{"pulling images"}},
		},
		{
			name: "a run that was given up waits for its Job to go", run: refused,
			seen: Observation{Job: deletedJob(), Pods: pod(corev1.PodPending, creating, creating)},
			want: want{status: api.StatusRunning, phase: api.PhasePulling, code: CodeImagePull, message: []string{"no such image"}},
		},
		{
			name: "a run that was given up asks again", run: refused,
			seen: Observation{Job: job(), Pods: pod(corev1.PodPending, creating, creating)},
			want: want{status: api.StatusRunning, phase: api.PhasePulling, code: CodeImagePull, message: []string{"no such image"}, delete: true},
		},
		{
			name: "a run that was given up fails with its reason", run: refused,
			seen: Observation{EventsRead: true},
			want: want{status: api.StatusFailed, phase: api.PhasePulling, code: CodeImagePull, message: []string{"no such image"}},
		},
		{
			name: "a run that was given up, began all the same and failed on its own", run: refused,
			seen: Observation{Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeStateNotSaved, Message: "not saved"})},
			want: want{status: api.StatusFailed, phase: api.PhasePulling, code: runcontract.CodeStateNotSaved, message: []string{"not saved"}},
		},
		{
			name: "a run that was given up, began all the same and was interrupted", run: refused,
			seen: Observation{Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeCancelled})},
			want: want{status: api.StatusFailed, phase: api.PhasePulling, code: CodeImagePull, message: []string{"no such image"}},
		},
		{
			name: "a run that was given up and yet succeeded has succeeded", run: refused,
			seen: Observation{Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeSucceeded})},
			want: want{status: api.StatusSucceeded, phase: api.PhaseDone, message: []string{"done"}},
		},

		// At work.
		{
			name: "cloning", run: live,
			seen: Observation{Job: job(), Pods: pod(corev1.PodPending, running(), creating)},
			want: want{status: api.StatusRunning, phase: api.PhaseCloning},
		},
		{
			name: "the runner has started", run: live,
			seen: Observation{Job: job(), Pods: pod(corev1.PodRunning, ended(0, ""), running())},
			want: want{status: api.StatusRunning, phase: api.PhasePreparingState, message: []string{"started"}},
		},
		{
			name: "the runner's message", run: live,
			seen: Observation{Job: job(), Pods: pod(corev1.PodRunning, ended(0, ""), running()), Outputs: outputs(&runcontract.Progress{Phase: api.PhasePlan, Message: "planning"}, nil)},
			want: want{status: api.StatusRunning, phase: api.PhasePlan, message: []string{"planning"}},
		},
		{
			name: "a runner without a message", run: live,
			seen: Observation{Job: job(), Pods: pod(corev1.PodRunning, ended(0, ""), running()), Outputs: outputs(&runcontract.Progress{Phase: api.PhaseApply, Done: 3, Total: 14}, nil)},
			want: want{status: api.StatusRunning, phase: api.PhaseApply, message: []string{"apply: 3 of 14"}},
		},
		{
			name: "an old report does not lead back", run: at(live, api.PhaseApply, "applying"),
			seen: Observation{Job: job(), Pods: pod(corev1.PodRunning, ended(0, ""), running()), Outputs: outputs(&runcontract.Progress{Phase: api.PhasePlan, Message: "planning"}, nil)},
			want: want{status: api.StatusRunning, phase: api.PhaseApply, message: []string{"applying"}},
		},
		{
			name: "a phase from a newer runner changes nothing", run: at(live, api.PhaseApply, "applying"),
			seen: Observation{Job: job(), Pods: pod(corev1.PodRunning, ended(0, ""), running()), Outputs: outputs(&runcontract.Progress{Phase: "dreaming", Message: "zzz"}, nil)},
			want: want{status: api.StatusRunning, phase: api.PhaseApply, message: []string{"applying"}},
		},
		{
			name: "a running pod is not subject to the start deadline", run: at(live, api.PhaseApply, "applying"), after: 5 * deadline,
			seen: Observation{Job: job(), Pods: pod(corev1.PodRunning, ended(0, ""), running())},
			want: want{status: api.StatusRunning, phase: api.PhaseApply, message: []string{"applying"}},
		},
		{
			name: "a result without an outcome ends nothing", run: at(live, api.PhaseApply, ""),
			seen: Observation{Job: job(), Pods: pod(corev1.PodRunning, ended(0, ""), running()), Outputs: outputs(nil, &runcontract.Result{Phase: api.PhaseApply})},
			want: want{status: api.StatusRunning, phase: api.PhaseApply},
		},
		{
			name: "a Job that only means to fail is awaited", run: at(live, api.PhaseApply, "applying"),
			seen: Observation{Job: job(batchv1.JobFailureTarget), Pods: pod(corev1.PodRunning, ended(0, ""), running())},
			want: want{status: api.StatusRunning, phase: api.PhaseApply, message: []string{"applying"}},
		},
		{
			name: "a Job that has failed is not over while its pod runs", run: at(live, api.PhaseApply, "applying"),
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodRunning, ended(0, ""), running())},
			want: want{status: api.StatusRunning, phase: api.PhaseApply, message: []string{"applying"}},
		},
		{
			name: "an eviction is said while the pod saves its work", run: at(live, api.PhaseApply, "applying"),
			seen: Observation{Job: job(), Pods: pod(corev1.PodRunning, ended(0, ""), running(), func(p *corev1.Pod) {
				p.DeletionTimestamp = &metav1.Time{Time: start}
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
			})},
			want: want{status: api.StatusRunning, phase: api.PhaseApply, message: []string{"told to stop", "EvictionByEvictionAPI"}},
		},
		{
			name: "a Job deleted by hand is not over while its pod runs", run: at(live, api.PhaseApply, "applying"),
			seen: Observation{Pods: pod(corev1.PodRunning, ended(0, ""), running(), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} })},
			want: want{status: api.StatusRunning, phase: api.PhaseApply, message: []string{"told to stop (it was deleted)"}},
		},

		// The end.
		{
			name: "succeeded", run: at(live, api.PhaseApply, "applying"),
			seen: Observation{Job: job(batchv1.JobComplete), Pods: pod(corev1.PodSucceeded, ended(0, ""), ended(0, "")), Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeSucceeded, Changes: &api.Changes{Add: 14}})},
			want: want{status: api.StatusSucceeded, phase: api.PhaseDone, message: []string{"14 added"}},
		},
		{
			name: "succeeded by the termination message alone", run: live,
			seen: Observation{Job: job(batchv1.JobComplete), Pods: pod(corev1.PodSucceeded, ended(0, ""), ended(0, `{"outcome":"succeeded","message":"all good"}`))},
			want: want{status: api.StatusSucceeded, phase: api.PhaseDone, message: []string{"all good"}},
		},
		{
			name: "complete without a result", run: live,
			seen: Observation{Job: job(batchv1.JobComplete), Pods: pod(corev1.PodSucceeded, ended(0, ""), ended(0, ""))},
			want: want{status: api.StatusFailed, phase: api.PhaseStarting, code: CodeResultMissing, message: []string{"published no result", "again"}},
		},
		{
			name: "the result says more than the Job", run: live,
			seen: Observation{Job: job(batchv1.JobFailed), Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeSucceeded})},
			want: want{status: api.StatusSucceeded, phase: api.PhaseDone},
		},
		{
			name: "the clone refuses an environment", run: at(live, api.PhaseCloning, ""),
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(66, `{"outcome":"failed","error_code":"environment_exists","message":"environments/acme is in the repository"}`), creating)},
			want: want{status: api.StatusFailed, phase: api.PhaseCloning, code: runcontract.CodeEnvironmentExists, message: []string{"environments/acme"}},
		},
		{
			name: "the clone fails with plain text", run: at(live, api.PhaseCloning, ""),
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(67, "fatal: repository not found\n"), creating)},
			want: want{status: api.StatusFailed, phase: api.PhaseCloning, code: runcontract.CodeCloneFailed, message: []string{"could not be cloned", "repository not found"}},
		},
		{
			name: "Terraform's diagnostic reaches the message", run: at(live, api.PhaseApply, ""),
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(0, ""), ended(74, "")), Outputs: outputs(nil, &runcontract.Result{
				Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeTerraformApply,
				Diagnostic: &runcontract.Diagnostic{Summary: "creating EKS Cluster", Detail: "AccessDenied", Address: "aws_eks_cluster.this"},
			})},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: runcontract.CodeTerraformApply, message: []string{"aws_eks_cluster.this: creating EKS Cluster: AccessDenied"}},
		},
		{
			name: "a diagnostic that the message has is not repeated", run: live,
			seen: Observation{Job: job(batchv1.JobFailed), Outputs: outputs(nil, &runcontract.Result{
				Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeTerraformPlan, Message: "plan failed: bad CIDR",
				Diagnostic: &runcontract.Diagnostic{Summary: "bad CIDR"},
			})},
			want: want{status: api.StatusFailed, phase: api.PhaseStarting, code: runcontract.CodeTerraformPlan, message: []string{"plan failed: bad CIDR"}},
		},
		{
			name: "an exit code of the contract without a result", run: live,
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(0, ""), ended(70, `{"phase":"init"}`))},
			want: want{status: api.StatusFailed, phase: api.PhaseInit, code: runcontract.CodeStateLocked, message: []string{"holds the lock"}},
		},
		{
			name: "out of memory", run: at(live, api.PhaseApply, ""),
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(0, ""), func() corev1.ContainerState {
				s := ended(137, `{"phase":"apply"}`)
				s.Terminated.Reason = "OOMKilled"
				return s
			}())},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: runcontract.CodeMemory, message: []string{"more memory", "2Gi", "phase apply", "raise the memory limit"}},
		},
		{
			name: "killed", run: live,
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(0, ""), ended(137, ""))},
			want: want{status: api.StatusFailed, phase: api.PhaseStarting, code: CodeContainer, message: []string{"was killed; the run's log may say why"}},
		},
		{
			name: "killed in the middle of an apply", run: live,
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(0, ""), ended(137, `{"phase":"apply","message":"applying"}`))},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: CodeContainer, message: []string{"container terraform was killed in phase apply; the run's log may say why. The state may lack the newest resources, and its lock may still be held"}},
		},
		{
			name: "a program that crashed", run: live,
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(0, ""), ended(2, ""))},
			want: want{status: api.StatusFailed, phase: api.PhaseStarting, code: CodeContainer, message: []string{"exit code 2"}},
		},
		{
			name: "evicted without a result", run: live,
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(0, ""), ended(143, ""), func(p *corev1.Pod) {
				p.Status.Reason, p.Status.Message = "Evicted", "The node was low on resource: memory"
			})},
			want: want{status: api.StatusFailed, phase: api.PhaseStarting, code: CodeEvicted, message: []string{"low on resource", "start the run again"}},
		},
		{
			name: "evicted in order", run: live,
			seen: Observation{Job: job(batchv1.JobFailed), Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeCancelled, Message: "state saved"}), Pods: pod(corev1.PodFailed, ended(0, ""), ended(77, ""), func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler", Message: "preempted"}}
			})},
			want: want{status: api.StatusFailed, phase: api.PhaseStarting, code: CodeEvicted, message: []string{"PreemptionByScheduler: preempted", "state saved"}},
		},
		{
			name: "a real failure in an evicted pod stays what it is", run: live,
			seen: Observation{Job: job(batchv1.JobFailed), Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeStateNotSaved, Message: "not saved"}), Pods: pod(corev1.PodFailed, ended(0, ""), ended(80, ""), func(p *corev1.Pod) { p.Status.Reason = "Evicted" })},
			want: want{status: api.StatusFailed, phase: api.PhaseStarting, code: runcontract.CodeStateNotSaved, message: []string{"not saved"}},
		},
		{
			name: "the pod's deadline", run: at(live, api.PhaseApply, ""),
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(0, ""), ended(137, ""), func(p *corev1.Pod) { p.Status.Reason = "DeadlineExceeded" })},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: runcontract.CodeDeadlineExceeded, message: []string{"deadline"}},
		},
		{
			name: "a Job that failed without a pod", run: at(live, api.PhaseApply, ""),
			seen: Observation{Job: job(batchv1.JobFailed)},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: CodeLost, message: []string{"BackoffLimitExceeded", "start the run again"}},
		},
		{
			name: "a Job deleted by hand", run: at(live, api.PhaseApply, ""),
			seen: Observation{Outputs: outputs(&runcontract.Progress{Phase: api.PhaseApply}, nil)},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: CodeLost, message: []string{"Job was deleted", "start the run again"}},
		},
		{
			name: "a Job deleted after the run had succeeded", run: at(live, api.PhaseApply, ""),
			seen: Observation{Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeSucceeded})},
			want: want{status: api.StatusSucceeded, phase: api.PhaseDone},
		},
		{
			name: "a Job deleted after the run had failed", run: at(live, api.PhaseApply, ""),
			seen: Observation{Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeKubeconfig, Message: "no kubeconfig"})},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: runcontract.CodeKubeconfig, message: []string{"no kubeconfig"}},
		},
		{
			name: "interrupted without anybody having asked", run: at(live, api.PhaseApply, ""),
			seen: Observation{Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeCancelled})},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: runcontract.CodeInterrupted, message: []string{"interrupted from outside"}},
		},

		// Cancelling.
		{
			name: "cancelling waits for the pod", run: cancelling,
			seen: Observation{Job: deletedJob(), Pods: pod(corev1.PodRunning, ended(0, ""), running())},
			want: want{status: api.StatusCancelling, phase: api.PhaseApply},
		},
		{
			name: "cancelled", run: cancelling,
			seen: Observation{Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeCancelled, Message: "state saved"})},
			want: want{status: api.StatusCancelled, phase: api.PhaseApply, message: []string{"cancelled: state saved"}},
		},
		{
			name: "cancelling deletes a Job that Kubernetes was not told to delete", run: cancelling,
			seen: Observation{Job: job(), Pods: pod(corev1.PodRunning, ended(0, ""), running())},
			want: want{status: api.StatusCancelling, phase: api.PhaseApply, delete: true},
		},
		{
			name: "a report from before does not hide that a run is cancelling", run: at(cancelling, api.PhaseApply, "asked to stop"),
			seen: Observation{Job: deletedJob(), Pods: pod(corev1.PodRunning, ended(0, ""), running()), Outputs: outputs(&runcontract.Progress{Phase: api.PhaseApply, Message: "applying", UpdatedAt: start}, nil)},
			want: want{status: api.StatusCancelling, phase: api.PhaseApply, message: []string{"asked to stop"}},
		},
		{
			name: "what a runner says while it stops", run: at(cancelling, api.PhaseApply, "asked to stop"),
			seen: Observation{Job: deletedJob(), Pods: pod(corev1.PodRunning, ended(0, ""), running()), Outputs: outputs(&runcontract.Progress{Phase: api.PhaseApply, Message: "saving the state", UpdatedAt: start.Add(time.Second)}, nil)},
			want: want{status: api.StatusCancelling, phase: api.PhaseApply, message: []string{"cancelling: saving the state"}},
		},
		{
			name: "cancelled without a word while it applied", run: cancelling, seen: Observation{},
			want: want{status: api.StatusCancelled, phase: api.PhaseApply, message: []string{"cancelled in phase apply", "may still be held"}},
		},
		{
			name: "cancelled before it began", run: at(cancelling, api.PhasePulling, ""), seen: Observation{},
			want: want{status: api.StatusCancelled, phase: api.PhasePulling, message: []string{"cancelled before it began"}},
		},
		{
			name: "a cancelled run whose state is not saved, by its exit code alone", run: cancelling,
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(0, ""), ended(int32(runcontract.ExitStateNotSaved), ""))},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: runcontract.CodeStateNotSaved, message: []string{"could not be saved"}},
		},
		{
			name: "a cancelled run that was interrupted, by its exit code alone", run: cancelling,
			seen: Observation{Job: job(batchv1.JobFailed), Pods: pod(corev1.PodFailed, ended(0, ""), ended(int32(runcontract.ExitInterrupted), ""))},
			want: want{status: api.StatusCancelled, phase: api.PhaseApply, message: []string{"cancelled"}},
		},
		{
			name: "a cancel that came too late", run: cancelling,
			seen: Observation{Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeSucceeded})},
			want: want{status: api.StatusSucceeded, phase: api.PhaseDone},
		},
		{
			name: "a cancelled run that failed on its own", run: cancelling,
			seen: Observation{Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeStateNotSaved, Message: "not saved"})},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: runcontract.CodeStateNotSaved, message: []string{"not saved"}},
		},

		// Not for sync.
		{
			name: "a queued run is not synced", run: Run{Status: api.StatusQueued, Phase: api.PhaseWaitingForSlot, Message: "waiting"},
			seen: Observation{Job: job(batchv1.JobComplete)},
			want: want{status: api.StatusQueued, phase: api.PhaseWaitingForSlot, message: []string{"waiting"}},
		},
		{
			name: "what has ended stays as it is", run: Run{Status: api.StatusFailed, Phase: api.PhaseApply, Message: "why", ErrorCode: string(CodeLost)},
			seen: Observation{Job: job(batchv1.JobComplete), Outputs: outputs(nil, &runcontract.Result{Outcome: runcontract.OutcomeSucceeded})},
			want: want{status: api.StatusFailed, phase: api.PhaseApply, code: CodeLost, message: []string{"why"}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			now := start.Add(test.after)
			c := Next(test.run, test.seen, now, deadline)
			got := want{status: c.Status, phase: c.Phase, code: runcontract.ErrorCode(c.ErrorCode), message: test.want.message, delete: c.DeleteJob}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("next (-want +got):\n%s\nmessage %q", diff, c.Message)
			}
			for _, part := range test.want.message {
				if !strings.Contains(c.Message, part) {
					t.Errorf("message %q has no %q", c.Message, part)
				}
			}
			if test.want.message == nil && test.run.Message == "" && c.Status == api.StatusRunning && c.Phase == test.run.Phase && c.Message != "" {
				t.Errorf("unexpected message %q", c.Message)
			}
			next, _, err := test.run.with(c, now)
			if err != nil {
				t.Fatal(err)
			}
			again := Next(next, test.seen, now, deadline)
			again.DeleteJob, c.DeleteJob = false, false
			if diff := cmp.Diff(c, again); diff != "" {
				t.Errorf("a second look at the same changes the run (-first +second):\n%s", diff)
			}
		})
	}
}

// TestTheEndIsUpToDate checks that the last report, which no sweep has seen, and
// the result are in an ended run.
func TestTheEndIsUpToDate(t *testing.T) {
	t.Parallel()
	nodes := []api.Node{{Name: "control-plane-0", State: api.NodeJoined}, {Name: "control-plane-1", State: api.NodeFailed, Message: "no disk"}}
	lock := &api.StateLock{ID: "lock", Who: "root@provision-x", Created: start}
	last := &runcontract.Progress{Phase: api.PhaseWaitingForNodes, Done: 9, Total: 9, Current: "x", Message: "waiting", Nodes: nodes}
	run := Run{Status: api.StatusRunning, Phase: api.PhaseApply, Message: "applying", StartedAt: start, Progress: api.Progress{Done: 3, Total: 9, Current: "vpc"}}
	for _, test := range []struct {
		name   string
		result runcontract.Result
		want   Change
	}{
		{
			name: "succeeded", result: runcontract.Result{Outcome: runcontract.OutcomeSucceeded, Message: "built", Changes: &api.Changes{Add: 9}},
			want: Change{Status: api.StatusSucceeded, Phase: api.PhaseDone, Message: "built", Progress: api.Progress{Done: 9, Total: 9}, Details: Details{Nodes: nodes, Changes: &api.Changes{Add: 9}}},
		},
		{
			name: "failed", result: runcontract.Result{Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeStateLocked, Message: "locked", Lock: lock},
			want: Change{
				Status: api.StatusFailed, Phase: api.PhaseWaitingForNodes, Message: "locked", ErrorCode: string(runcontract.CodeStateLocked),
				Progress: api.Progress{Done: 9, Total: 9}, Details: Details{Nodes: nodes, Lock: lock},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := Next(run, Observation{Job: job(batchv1.JobComplete), Outputs: outputs(last, &test.result)}, start, deadline)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("next (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportCountsDoNotGoBack(t *testing.T) {
	t.Parallel()
	c := Change{Phase: api.PhaseApply, Progress: api.Progress{Done: 5, Total: 9}}
	for _, test := range []struct {
		name string
		p    runcontract.Progress
		want int
	}{
		{"an older count of the same total", runcontract.Progress{Phase: api.PhaseApply, Done: 4, Total: 9}, 5},
		{"a newer count of the same total", runcontract.Progress{Phase: api.PhaseApply, Done: 6, Total: 9}, 6},
		{"another total", runcontract.Progress{Phase: api.PhaseApply, Done: 1, Total: 12}, 1},
		{"a phase that counts nothing", runcontract.Progress{Phase: api.PhasePublishing}, 5},
		{"nonsense", runcontract.Progress{Phase: api.PhaseApply, Done: -4, Total: 12}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := report(c, test.p).Progress.Done; got != test.want {
				t.Errorf("done %d, want %d", got, test.want)
			}
		})
	}
}

func TestTidy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"what fits stays", "0123456789", "0123456789"},
		{"what does not is cut", "0123456789A", "0123456…"},
		{"no rune is cut", "012345Ä789A", "012345…"},
		{"NUL and broken UTF-8 go", "a\x00b\xff", "ab\uFFFD"},
		{"what steers a terminal goes", "\x1b[1m\a\u009b\tb\n\r", "[1m\tb\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := tidy(test.in, 10); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestScaffoldingRuns: the phases of both kinds are in one order, and what a
// scaffolding runner has made is kept.
func TestScaffoldingRuns(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{runcontract.LabelKind: string(runcontract.KindScaffold)}},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "scaffold-runner", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}
	run := Run{ID: "x", Status: api.StatusRunning, Phase: api.PhaseStarting, StartedAt: now}
	see := func(outputs *Outputs) {
		t.Helper()
		c := Next(run, Observation{Job: &batchv1.Job{}, Pods: []*corev1.Pod{pod}, Outputs: outputs}, now, time.Hour)
		next, _, err := run.with(c, now)
		if err != nil {
			t.Fatal(err)
		}
		run = next
	}
	see(nil)
	if run.Phase != api.PhaseClone {
		t.Errorf("a runner that has begun is in phase %s", run.Phase)
	}
	first := &api.ScaffoldOutput{GitOpsPath: "clusters/acme", Commits: &api.ScaffoldCommits{Infrastructure: "1"}}
	for _, phase := range []api.Phase{
		api.PhaseClone, api.PhaseGenerateInfrastructure, api.PhasePushInfrastructure, api.PhaseWaitingForSealedSecrets, api.PhaseSeal, api.PhasePushComplete,
	} {
		see(&Outputs{Progress: &runcontract.Progress{Phase: phase, Scaffold: first}})
		if run.Phase != phase {
			t.Errorf("phase %s, want %s", run.Phase, phase)
		}
	}
	see(&Outputs{Progress: &runcontract.Progress{Phase: api.PhaseClone}}) // an old one
	if diff := cmp.Diff(first, run.Details.Scaffold); diff != "" || run.Phase != api.PhasePushComplete {
		t.Errorf("phase %s, output (-want +got):\n%s", run.Phase, diff)
	}
	last := &api.ScaffoldOutput{GitOpsPath: "clusters/acme", Commits: &api.ScaffoldCommits{Infrastructure: "1", Complete: "2"}, CertificateFingerprint: "ab"}
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodSucceeded, nil
	job := &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}
	c := Next(run, Observation{Job: job, Pods: []*corev1.Pod{pod}, Outputs: &Outputs{Result: &runcontract.Result{Outcome: runcontract.OutcomeSucceeded, Scaffold: last}}}, now, time.Hour)
	if diff := cmp.Diff(last, c.Details.Scaffold); diff != "" || c.Status != api.StatusSucceeded {
		t.Errorf("status %s, output (-want +got):\n%s", c.Status, diff)
	}
}
