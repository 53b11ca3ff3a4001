package node

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubeopera/platform/sim/podnetwork"
)

// worker runs one pod from its binding until its object is gone.
type worker struct {
	node            *Node
	namespace, name string
	uid             types.UID
	pod             *corev1.Pod // as first seen: a pod's containers do not change

	init, main []*container

	terminate chan struct{} // closed when the containers are to end
	kill      chan struct{} // closed when they have had their time
	deleted   chan struct{} // closed when the object is to go, or is gone
	changed   chan struct{} // holds a token while the status is not yet written

	mu          sync.Mutex
	latest      *corev1.Pod // as last seen
	started     metav1.Time
	network     *podnetwork.Pod // nil: this machine's, or there is none yet
	ip          string          // empty until the pod has a network
	volumes     bool            // all volumes are there
	ending      bool            // terminate is closed
	killAt      time.Time
	killTimer   *time.Timer
	verdict     *verdict // nil: the containers' exit codes decide
	allEnded    bool     // no container runs, and none will
	deletedOnce sync.Once
}

// verdict is the outcome of a pod that was ended for a reason of its own.
type verdict struct {
	reason, message string
	condition       *corev1.PodCondition
}

func newWorker(n *Node, pod *corev1.Pod) *worker {
	w := &worker{
		node: n, namespace: pod.Namespace, name: pod.Name, uid: pod.UID, pod: pod, latest: pod,
		terminate: make(chan struct{}), kill: make(chan struct{}), deleted: make(chan struct{}),
		changed: make(chan struct{}, 1),
		started: metav1.Now(),
	}
	for i := range pod.Spec.InitContainers {
		w.init = append(w.init, newContainer(w, &pod.Spec.InitContainers[i], "PodInitializing"))
	}
	reason := "ContainerCreating"
	if len(w.init) > 0 {
		reason = "PodInitializing"
	}
	for i := range pod.Spec.Containers {
		w.main = append(w.main, newContainer(w, &pod.Spec.Containers[i], reason))
	}
	return w
}

// run returns when the pod's object is gone, or when ctx has ended and all its
// processes have.
func (w *worker) run(ctx context.Context) {
	written := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(written)
		w.writeStatus(ctx, ended)
	}()
	if seconds := w.pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		timer := time.AfterFunc(time.Duration(*seconds)*time.Second, w.pastDeadline)
		defer timer.Stop()
	}

	w.runContainers(ctx)
	w.leave(ctx)
	w.mu.Lock()
	w.allEnded = true
	if w.killTimer != nil {
		w.killTimer.Stop()
	}
	w.mu.Unlock()
	w.touch()
	close(ended)
	<-written
	w.removeVolumes(ctx)

	select {
	case <-ctx.Done():
		return
	case <-w.deleted:
	}
	if err := w.node.deleteObject(ctx, w.namespace, w.name, w.uid); err != nil && ctx.Err() == nil {
		w.node.config.Log.WarnContext(ctx, "ended pod not deleted", "pod", w.name, "error", err)
	}
}

// runContainers returns when no container runs any more.
func (w *worker) runContainers(ctx context.Context) {
	if !w.join(ctx) || !w.makeVolumes(ctx) {
		return
	}
	for _, c := range w.init {
		if !c.run(ctx) {
			return
		}
	}
	for _, c := range w.main {
		c.wait("ContainerCreating", "")
	}
	var running sync.WaitGroup
	for _, c := range w.main {
		running.Go(func() { c.run(ctx) })
	}
	running.Wait()
}

// update takes a change of the pod's object.
func (w *worker) update(pod *corev1.Pod) {
	w.mu.Lock()
	w.latest = pod
	w.mu.Unlock()
	if pod.DeletionTimestamp != nil {
		grace := w.grace()
		if pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds > 0 {
			grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
		}
		w.stop(grace, nil)
		w.deletedOnce.Do(func() { close(w.deleted) })
	}
}

// lost learns that the object is gone: the pod is stopped with its own grace
// period, unless it is being stopped already.
func (w *worker) lost() {
	w.stop(w.grace(), nil)
	w.deletedOnce.Do(func() { close(w.deleted) })
}

func (w *worker) pastDeadline() {
	if w.ended() {
		return
	}
	const message = "Pod was active on the node longer than the specified deadline"
	w.node.events.Event(w.reference(), corev1.EventTypeNormal, "DeadlineExceeded", message)
	w.stop(w.grace(), &verdict{reason: "DeadlineExceeded", message: message})
}

// grace is the pod's own grace period.
func (w *worker) grace() time.Duration {
	if seconds := w.pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return 30 * time.Second
}

// stop ends the containers: SIGTERM now, SIGKILL after the grace period. A later
// call can only shorten that; the first verdict counts.
func (w *worker) stop(grace time.Duration, v *verdict) {
	grace = max(grace, time.Second) // the kubelet's minimum
	killAt := time.Now().Add(grace)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.allEnded:
	case !w.ending:
		w.ending, w.verdict, w.killAt = true, v, killAt
		w.killTimer = time.AfterFunc(grace, func() { close(w.kill) })
		close(w.terminate)
	case killAt.Before(w.killAt):
		if w.killTimer.Stop() { // else they are killed already
			w.killAt = killAt
			w.killTimer.Reset(grace)
		}
	}
}

// pause waits, and tells whether the pod is still to go on then.
func (w *worker) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w.terminate:
		return false
	case <-timer.C:
		return true
	}
}

// stopping tells whether containers are not to be started any more.
func (w *worker) stopping(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-w.terminate:
		return true
	default:
		return false
	}
}

// ended tells whether no container runs, and none will.
func (w *worker) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.allEnded
}

// touch has the status written.
func (w *worker) touch() {
	select {
	case w.changed <- struct{}{}:
	default: // it is going to be
	}
}

// reference is what events are about.
func (w *worker) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: w.namespace, Name: w.name, UID: w.uid}
}

func (w *worker) event(kind, reason, message string) {
	w.node.events.Event(w.reference(), kind, reason, message)
}

// containers in the order in which they run.
func (w *worker) containers() []*container {
	return append(append([]*container{}, w.init...), w.main...)
}

func (w *worker) container(name string) (*container, error) {
	for _, c := range w.containers() {
		if c.spec.Name == name {
			return c, nil
		}
	}
	return nil, ErrNotFound
}

func (w *worker) dir() string       { return filepath.Join(w.node.podsDir(), string(w.uid)) }
func (w *worker) memoryDir() string { return filepath.Join(w.node.memoryDir(), string(w.uid)) }

// logDir outlives the pod: it is what is left to look at.
func (w *worker) logDir() string {
	return filepath.Join(w.node.logsDir(), w.namespace+"_"+w.name+"_"+string(w.uid))
}

func (w *worker) removeVolumes(ctx context.Context) {
	for _, dir := range []string{w.dir(), w.memoryDir()} {
		if err := os.RemoveAll(dir); err != nil {
			w.node.config.Log.WarnContext(ctx, "pod directory not removed", "dir", dir, "error", err)
		}
	}
}
