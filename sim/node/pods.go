package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// maxOldLogs is how many pods' logs are kept after the pods are gone.
const maxOldLogs = 100

// runPods gives each pod that is bound to the node a worker, until ctx ends and
// all workers have.
func (n *Node) runPods(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(n.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", n.config.Name).String()
		}))
	informer := factory.Core().V1().Pods().Informer()
	var workers sync.WaitGroup
	see := func(object any) {
		n.pause.wait(ctx)
		if pod, ok := object.(*corev1.Pod); ok {
			n.see(ctx, &workers, pod)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, object any) { see(object) },
		DeleteFunc: func(object any) {
			n.pause.wait(ctx)
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				n.lose(pod)
			}
		},
	}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	factory.StartWithContext(ctx)
	defer workers.Wait()
	defer factory.Shutdown() // before the wait: no new worker comes after it
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	close(n.ready)
	<-ctx.Done()
	return ctx.Err()
}

// see takes a new or changed pod.
func (n *Node) see(ctx context.Context, workers *sync.WaitGroup, pod *corev1.Pod) {
	n.mu.Lock()
	w, known := n.workers[pod.UID]
	if !known && !final(pod.Status.Phase) && !n.finished[pod.UID] {
		w = newWorker(n, pod)
		n.workers[pod.UID] = w
		workers.Go(func() {
			w.run(ctx)
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.workers, pod.UID)
			n.finished[pod.UID] = true
			n.pruneLogs(ctx)
		})
	}
	n.mu.Unlock()

	switch {
	case w != nil:
		w.update(pod)
	case pod.DeletionTimestamp != nil:
		// A pod that ended under an earlier node, or just now.
		workers.Go(func() {
			if err := n.deleteObject(ctx, pod.Namespace, pod.Name, pod.UID); err != nil && ctx.Err() == nil {
				n.config.Log.WarnContext(ctx, "ended pod not deleted", "pod", pod.Name, "error", err)
			}
		})
	}
}

// pruneLogs removes the oldest logs of pods that are gone. The caller holds mu.
func (n *Node) pruneLogs(ctx context.Context) {
	entries, err := os.ReadDir(n.logsDir())
	if err != nil {
		n.config.Log.WarnContext(ctx, "logs not listed", "error", err)
		return
	}
	inUse := map[string]bool{}
	for _, w := range n.workers {
		inUse[filepath.Base(w.logDir())] = true
	}
	type directory struct {
		name    string
		changed time.Time
	}
	var unused []directory
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && !inUse[entry.Name()] {
			unused = append(unused, directory{name: entry.Name(), changed: info.ModTime()})
		}
	}
	slices.SortFunc(unused, func(a, b directory) int { return b.changed.Compare(a.changed) })
	for _, old := range unused[min(maxOldLogs, len(unused)):] {
		if err := os.RemoveAll(filepath.Join(n.logsDir(), old.name)); err != nil {
			n.config.Log.WarnContext(ctx, "old log not removed", "error", err)
		}
	}
}

// lose learns that a pod's object is gone. As for the kubelet, that is no reason
// to give its containers less time than the pod wants them to have.
func (n *Node) lose(pod *corev1.Pod) {
	n.mu.Lock()
	w, known := n.workers[pod.UID]
	delete(n.finished, pod.UID)
	n.mu.Unlock()
	if known {
		w.lost()
	}
}

// deleteObject removes a pod that has ended.
func (n *Node) deleteObject(ctx context.Context, namespace, name string, uid types.UID) error {
	err := n.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      &metav1.Preconditions{UID: &uid},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or replaced by another pod of the same name
	}
	return err
}

// final tells whether a phase never changes again.
func final(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
