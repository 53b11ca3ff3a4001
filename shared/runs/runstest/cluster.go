package runstest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// Cluster is a namespace in memory.
type Cluster struct {
	kind runcontract.Kind
	now  func() time.Time

	mu           sync.Mutex
	credentials  map[runs.ID]credential
	configMaps   map[runs.ID]map[string]string
	owned        map[runs.ID]types.UID
	jobs         map[runs.ID]*batchv1.Job
	environments map[runs.ID]string // of the runs that had a Job
	created      map[runs.ID]int
	pods         map[runs.ID]*corev1.Pod
	problems     map[runs.ID][]runs.StartProblem
	outputs      map[runs.ID]map[string][]byte
	logs         map[runs.ID]string
	killed       map[runs.ID]int
	changed      chan struct{} // closed, and made anew, when a log grows or a pod ends
}

type credential struct {
	files   map[string][]byte
	created time.Time
}

var _ runs.Cluster = (*Cluster)(nil)

// NewCluster makes an empty namespace; now (nil: time.Now) stamps its objects.
func NewCluster(kind runcontract.Kind, now func() time.Time) *Cluster {
	if now == nil {
		now = time.Now
	}
	return &Cluster{
		kind: kind, now: now,
		credentials: map[runs.ID]credential{}, configMaps: map[runs.ID]map[string]string{}, owned: map[runs.ID]types.UID{},
		jobs: map[runs.ID]*batchv1.Job{}, environments: map[runs.ID]string{}, created: map[runs.ID]int{}, pods: map[runs.ID]*corev1.Pod{},
		problems: map[runs.ID][]runs.StartProblem{}, outputs: map[runs.ID]map[string][]byte{}, logs: map[runs.ID]string{},
		killed: map[runs.ID]int{}, changed: make(chan struct{}),
	}
}

// EnsureCredential makes the credential Secret.
func (c *Cluster) EnsureCredential(_ context.Context, run runs.Run, files map[string][]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.credentials[run.ID]; !ok {
		c.credentials[run.ID] = credential{files: maps.Clone(files), created: c.now()}
	}
	return nil
}

// EnsureConfigMap makes the ConfigMap.
func (c *Cluster) EnsureConfigMap(_ context.Context, run runs.Run, files map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configMaps[run.ID] = maps.Clone(files)
	return nil
}

// EnsureJob makes the Job.
func (c *Cluster) EnsureJob(_ context.Context, run runs.Run, job *batchv1.Job) (*batchv1.Job, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if made, ok := c.jobs[run.ID]; ok {
		return made.DeepCopy(), nil
	}
	made := job.DeepCopy()
	c.created[run.ID]++
	made.UID = types.UID(fmt.Sprintf("%s-%d", run.ID, c.created[run.ID]))
	made.CreationTimestamp = metav1.NewTime(c.now())
	c.jobs[run.ID] = made
	c.environments[run.ID] = run.Environment
	return made.DeepCopy(), nil
}

// Own notes the owner.
func (c *Cluster) Own(_ context.Context, run runs.Run, job *batchv1.Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owned[run.ID] = job.UID
	return nil
}

// DeleteJob deletes the Job at once if its pod has not begun; else the pod is
// told to stop, and Finish is what ends it.
func (c *Cluster) DeleteJob(_ context.Context, id runs.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	job := c.jobs[id]
	if job == nil {
		return nil
	}
	if begun := (runs.Observation{Pods: c.podsOf(id)}).Begun(); !begun {
		c.remove(id)
		return nil
	}
	stamp := metav1.NewTime(c.now())
	job.DeletionTimestamp, c.pods[id].DeletionTimestamp = &stamp, &stamp
	return nil
}

// DeletePod notes that the pod was killed; Finish or Vanish ends it.
func (c *Cluster) DeletePod(_ context.Context, id runs.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pod := c.pods[id]; pod != nil && live(pod) {
		c.killed[id]++
	}
	return nil
}

// EnvironmentPods gives the names of an environment's pods that have not ended.
func (c *Cluster) EnvironmentPods(_ context.Context, environment string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for id, pod := range c.pods {
		if live(pod) && c.environments[id] == environment {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func live(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// remove removes the Job, its pod and what it owns; the mutex is held.
func (c *Cluster) remove(id runs.ID) {
	if c.owned[id] == c.jobs[id].UID {
		delete(c.credentials, id)
		delete(c.configMaps, id)
	}
	delete(c.jobs, id)
	delete(c.pods, id)
	c.tell()
}

// tell wakes who follows a log; the mutex is held.
func (c *Cluster) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Observe gives all there is, but events and outputs.
func (c *Cluster) Observe(_ context.Context, id runs.ID) (runs.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return runs.Observation{Job: c.jobs[id].DeepCopy(), Pods: c.podsOf(id)}, nil
}

// Inspect gives all there is.
func (c *Cluster) Inspect(_ context.Context, id runs.ID) (runs.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	published := parse(c.outputs[id])
	return runs.Observation{
		Job: c.jobs[id].DeepCopy(), Pods: c.podsOf(id),
		Problems: slices.Clone(c.problems[id]), EventsRead: true, Outputs: &published,
	}, nil
}

// Outputs gives what runners have published.
func (c *Cluster) Outputs(_ context.Context, ids []runs.ID) (map[runs.ID]runs.Outputs, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[runs.ID]runs.Outputs{}
	for _, id := range ids {
		if data, ok := c.outputs[id]; ok {
			all[id] = parse(data)
		}
	}
	return all, nil
}

// Output gives one key of what a runner has published.
func (c *Cluster) Output(_ context.Context, id runs.ID, key string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	data, ok := c.outputs[id][key]
	if !ok {
		return nil, fmt.Errorf("output %s of run %s: %w", key, id, runs.ErrNotFound)
	}
	return slices.Clone(data), nil
}

// Ping says that all is well.
func (c *Cluster) Ping(context.Context) error { return nil }

// Logs gives the log of a pod that has begun, as far as it goes; following, until
// the pod has ended.
func (c *Cluster) Logs(ctx context.Context, id runs.ID, opts runs.LogOptions) (io.ReadCloser, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !(runs.Observation{Pods: c.podsOf(id)}).Begun() {
		return nil, fmt.Errorf("run %s: %w", id, runs.ErrNoLogs)
	}
	if opts.Follow {
		ctx, stop := context.WithCancel(ctx)
		return &followed{cluster: c, id: id, ctx: ctx, stop: stop}, nil
	}
	return io.NopCloser(strings.NewReader(c.logs[id])), nil
}

// followed is a log that is read while it grows.
type followed struct {
	cluster *Cluster
	id      runs.ID
	at      int
	ctx     context.Context //nolint:containedctx // a stream's life is its context's
	stop    context.CancelFunc
}

func (f *followed) Read(p []byte) (int, error) {
	for {
		f.cluster.mu.Lock()
		text, pod, changed := f.cluster.logs[f.id], f.cluster.pods[f.id], f.cluster.changed
		f.cluster.mu.Unlock()
		if f.at < len(text) {
			n := copy(p, text[f.at:])
			f.at += n
			return n, nil
		}
		if pod == nil || !live(pod) {
			return 0, io.EOF
		}
		select {
		case <-f.ctx.Done():
			return 0, f.ctx.Err()
		case <-changed:
		}
	}
}

func (f *followed) Close() error {
	f.stop()
	return nil
}

// Credentials lists credential Secrets.
func (c *Cluster) Credentials(context.Context) ([]runs.CredentialSecret, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []runs.CredentialSecret
	for id, s := range c.credentials {
		all = append(all, runs.CredentialSecret{Run: id, CreatedAt: s.created})
	}
	return all, nil
}

// DeleteCredential deletes the credential Secret.
func (c *Cluster) DeleteCredential(_ context.Context, id runs.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.credentials, id)
	return nil
}

// DeleteOutputs deletes what a runner has published.
func (c *Cluster) DeleteOutputs(_ context.Context, id runs.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.outputs, id)
	return nil
}

// podsOf gives copies of a run's pods; the mutex is held.
func (c *Cluster) podsOf(id runs.ID) []*corev1.Pod {
	if pod, ok := c.pods[id]; ok {
		return []*corev1.Pod{pod.DeepCopy()}
	}
	return nil
}

func parse(data map[string][]byte) runs.Outputs {
	var out runs.Outputs
	if raw, ok := data[runcontract.KeyProgress]; ok {
		var p runcontract.Progress
		if json.NewDecoder(bytes.NewReader(raw)).Decode(&p) == nil {
			out.Progress = &p
		}
	}
	if raw, ok := data[runcontract.KeyResult]; ok {
		var r runcontract.Result
		if json.NewDecoder(bytes.NewReader(raw)).Decode(&r) == nil {
			out.Result = &r
		}
	}
	return out
}
