package runstest

import (
	"encoding/json"
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// Start gives the run's Job a pod whose one container runs. It panics if there is
// no Job: the test is wrong then.
func (c *Cluster) Start(id runs.ID) {
	c.SetPod(id, Pod(corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.now())}}))
}

// SetPod gives the run's Job that pod.
func (c *Cluster) SetPod(id runs.ID, pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jobs[id] == nil {
		panic(fmt.Sprintf("run %s has no Job", id))
	}
	pod.Name = c.jobs[id].Name + "-pod"
	c.pods[id] = pod
	c.tell()
}

// SetProblems sets the warning events of a run.
func (c *Cluster) SetProblems(id runs.ID, problems ...runs.StartProblem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems[id] = problems
}

// Publish sets a key of the run's outputs; what is not []byte becomes JSON.
func (c *Cluster) Publish(id runs.ID, key string, value any) {
	raw, ok := value.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(value); err != nil {
			panic(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outputs[id] == nil {
		c.outputs[id] = map[string][]byte{}
	}
	c.outputs[id][key] = raw
}

// SetLog sets what the run's pod has logged.
func (c *Cluster) SetLog(id runs.ID, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs[id] = text
	c.tell()
}

// Finish ends the run's pod and Job: with exit code 0 the Job is complete.
func (c *Cluster) Finish(id runs.ID, code runcontract.ExitCode, result *runcontract.Result) {
	if result != nil {
		c.Publish(id, runcontract.KeyResult, result)
	}
	phase, condition := corev1.PodSucceeded, batchv1.JobComplete
	if code != 0 {
		phase, condition = corev1.PodFailed, batchv1.JobFailed
	}
	ended := &corev1.ContainerStateTerminated{ExitCode: int32(code), FinishedAt: metav1.NewTime(c.now())}
	if result != nil {
		ended.Message = string(result.Compact())
	}
	c.SetPod(id, Pod(phase, corev1.ContainerState{Terminated: ended}))
	c.mu.Lock()
	defer c.mu.Unlock()
	job := c.jobs[id]
	if !job.DeletionTimestamp.IsZero() { // a deleted Job goes with its pod
		c.remove(id)
		return
	}
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue})
}

// Vanish removes the Job and its pod, as somebody with kubectl would.
func (c *Cluster) Vanish(id runs.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(id)
}

// Job is the run's Job, or nil.
func (c *Cluster) Job(id runs.ID) *batchv1.Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[id].DeepCopy()
}

// Killed counts how often the run's living pod was killed.
func (c *Cluster) Killed(id runs.ID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed[id]
}

// JobsCreated counts how often a Job was created for the run.
func (c *Cluster) JobsCreated(id runs.ID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.created[id]
}

// Owned says whether the Job owns the run's ConfigMap and credential.
func (c *Cluster) Owned(id runs.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[id] != nil && c.owned[id] == c.jobs[id].UID
}

// Files is the content of the run's ConfigMap, nil if there is none.
func (c *Cluster) Files(id runs.ID) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.configMaps[id])
}

// Credential is the content of the run's credential Secret, nil if there is none.
func (c *Cluster) Credential(id runs.ID) map[string][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.credentials[id].files)
}

// PutCredential makes a credential Secret without a run.
func (c *Cluster) PutCredential(id runs.ID, files map[string][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credentials[id] = credential{files: maps.Clone(files), created: c.now()}
}

// Pod is a pod with one container, main, in that state.
func Pod(phase corev1.PodPhase, main corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "example.test/main:1"}}},
		Status: corev1.PodStatus{
			Phase:             phase,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "example.test/main:1", State: main}},
		},
	}
}
