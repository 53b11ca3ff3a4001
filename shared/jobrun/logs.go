package jobrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubeopera/platform/shared/runs"
)

// followInterval is how often a follower looks whether the next container has begun.
const followInterval = time.Second

// errSkip means that a container has no log.
var errSkip = errors.New("no log of this container")

// Logs streams the logs of the newest pod's containers in the order in which they
// run. With a tail it gives the last lines of all; following, of the container
// that runs now, and then all that comes.
func (c *Cluster) Logs(ctx context.Context, id runs.ID, opts runs.LogOptions) (io.ReadCloser, error) {
	pods, err := c.listPods(ctx, id)
	if err != nil {
		return nil, err
	}
	if !(runs.Observation{Pods: pods}).Begun() {
		return nil, fmt.Errorf("run %s: %w", id, runs.ErrNoLogs)
	}
	pod := pods[len(pods)-1]
	names := containerNames(pod)
	switch {
	case opts.Tail > 0 && opts.Follow:
		names = names[lastBegun(pod, names):]
	case opts.Tail > 0:
		return c.tail(ctx, pod, names, opts.Tail)
	}
	ctx, stop := context.WithCancel(ctx)
	log := &chain{stop: stop}
	for i, name := range names {
		options := corev1.PodLogOptions{Container: name, Follow: opts.Follow}
		if opts.Tail > 0 && i == 0 {
			options.TailLines = new(int64(opts.Tail))
		}
		log.open = append(log.open, func() (io.ReadCloser, error) {
			if opts.Follow && i > 0 {
				if err := c.awaitContainer(ctx, id, pod.Name, name); err != nil {
					return nil, err
				}
			}
			return c.stream(ctx, pod.Name, options)
		})
	}
	if err := log.next(); err != nil { // so that what is wrong shows now
		stop()
		return nil, err
	}
	return log, nil
}

// stream opens the log of one container; errSkip if it has none.
func (c *Cluster) stream(ctx context.Context, pod string, options corev1.PodLogOptions) (io.ReadCloser, error) {
	text, err := c.client.CoreV1().Pods(c.namespace).GetLogs(pod, &options).Stream(ctx)
	// 400: the container has not begun, or the pod failed without it.
	if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) {
		return nil, errSkip
	}
	if err != nil {
		return nil, failed("read the log of pod", pod, err)
	}
	return text, nil
}

// tail gives the last lines of all containers together.
func (c *Cluster) tail(ctx context.Context, pod *corev1.Pod, names []string, lines int) (io.ReadCloser, error) {
	var all []byte
	for i := len(names) - 1; i >= 0 && lines > 0; i-- {
		text, err := c.stream(ctx, pod.Name, corev1.PodLogOptions{Container: names[i], TailLines: new(int64(lines))})
		if errors.Is(err, errSkip) {
			continue
		}
		if err != nil {
			return nil, err
		}
		data, _, err := runs.ReadEnd(text, tailLimit)
		if err := errors.Join(err, text.Close()); err != nil {
			return nil, failed("read the log of pod", pod.Name, err)
		}
		lines -= bytes.Count(data, []byte("\n"))
		if len(data) > 0 && data[len(data)-1] != '\n' {
			lines--
		}
		all = append(data, all...)
	}
	return io.NopCloser(bytes.NewReader(all)), nil
}

// tailLimit bounds what the last lines of a log may take in memory: a line has
// no bound of its own.
const tailLimit = 4 << 20

// awaitContainer waits until a container has begun, or will not.
func (c *Cluster) awaitContainer(ctx context.Context, id runs.ID, pod, container string) error {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		pods, err := c.pods(ctx, id)
		if err != nil {
			return err
		}
		found := false
		for _, p := range pods {
			if p.Name != pod {
				continue
			}
			found = true
			if begun(p, container) {
				return nil
			}
			if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
				return errSkip
			}
		}
		if !found {
			return errSkip
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// containerNames are a pod's containers in the order in which they run.
func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return names
}

// lastBegun is the index of the last container that has begun.
func lastBegun(pod *corev1.Pod, names []string) int {
	last := 0
	for i, name := range names {
		if begun(pod, name) {
			last = i
		}
	}
	return last
}

func begun(pod *corev1.Pod, container string) bool {
	for _, all := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range all {
			if s.Name == container {
				return s.State.Running != nil || s.State.Terminated != nil
			}
		}
	}
	return false
}

// chain reads logs one after the other, each opened when its turn comes. It may
// be closed while it is being read.
type chain struct {
	open []func() (io.ReadCloser, error) // the reader's own
	stop context.CancelFunc

	mu      sync.Mutex
	current io.ReadCloser // nil: none is left
}

// next goes on to the next container that has a log.
func (l *chain) next() error {
	l.set(nil)
	for len(l.open) > 0 {
		open := l.open[0]
		l.open = l.open[1:]
		text, err := open()
		if errors.Is(err, errSkip) {
			continue
		}
		if err != nil {
			return err
		}
		l.set(text)
		return nil
	}
	return nil
}

func (l *chain) set(text io.ReadCloser) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = text
}

func (l *chain) get() io.ReadCloser {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

func (l *chain) Read(p []byte) (int, error) {
	for {
		current := l.get()
		if current == nil {
			return 0, io.EOF
		}
		n, err := current.Read(p)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		err = errors.Join(current.Close(), l.next())
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Close ends the reading. A log that is being opened meanwhile ends by its context.
func (l *chain) Close() error {
	l.stop()
	current := l.get()
	if current == nil {
		return nil
	}
	return current.Close()
}
