package jobrun

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// Cluster is the namespace where the runs of one kind live.
type Cluster struct {
	client    kubernetes.Interface
	namespace string
	kind      runcontract.Kind
	managedBy string

	caches atomic.Pointer[caches] // nil unless Run has filled them
}

// caches hold the Jobs and pods of all runs of the kind.
type caches struct {
	jobs batchlisters.JobNamespaceLister
	pods cache.Indexer // by runIndex
}

const runIndex = "run"

var _ runs.Cluster = (*Cluster)(nil)

// New makes a Cluster; managedBy is the service's name, on every object as a label.
func New(client kubernetes.Interface, namespace string, kind runcontract.Kind, managedBy string) *Cluster {
	return &Cluster{client: client, namespace: namespace, kind: kind, managedBy: managedBy}
}

// Run keeps the caches filled until ctx ends; it returns nil then.
func (c *Cluster) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0,
		informers.WithNamespace(c.namespace),
		informers.WithTransform(trim),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = c.selector(nil).String() }),
	)
	jobs, pods := factory.Batch().V1().Jobs(), factory.Core().V1().Pods().Informer()
	jobInformer := jobs.Informer()
	err := pods.AddIndexers(cache.Indexers{runIndex: func(obj any) ([]string, error) {
		object, ok := obj.(metav1.Object)
		if !ok {
			return nil, fmt.Errorf("index pods: got a %T", obj)
		}
		return []string{object.GetLabels()[runcontract.LabelRunID]}, nil
	}})
	if err != nil {
		return fmt.Errorf("watch runs: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), jobInformer.HasSynced, pods.HasSynced) {
		return nil // ctx has ended
	}
	c.caches.Store(&caches{jobs: jobs.Lister().Jobs(c.namespace), pods: pods.GetIndexer()})
	defer c.caches.Store(nil)
	<-ctx.Done()
	return nil
}

// trim drops what nobody reads, which is most of an object: caches hold every Job
// and pod until its time to live has passed, a day after its end.
func trim(obj any) (any, error) {
	switch o := obj.(type) {
	case *batchv1.Job:
		o.ManagedFields = nil
		o.Spec = batchv1.JobSpec{}
	case *corev1.Pod:
		o.ManagedFields = nil
		o.Spec = corev1.PodSpec{
			NodeName: o.Spec.NodeName, InitContainers: names(o.Spec.InitContainers), Containers: names(o.Spec.Containers),
		}
	}
	return obj, nil
}

// names are containers without what they are made of.
func names(containers []corev1.Container) []corev1.Container {
	var trimmed []corev1.Container
	for _, c := range containers {
		trimmed = append(trimmed, corev1.Container{Name: c.Name, Image: c.Image})
	}
	return trimmed
}

// Ping says whether the API server answers and lets us see Jobs.
func (c *Cluster) Ping(ctx context.Context) error {
	_, err := c.client.BatchV1().Jobs(c.namespace).List(ctx, metav1.ListOptions{Limit: 1, LabelSelector: c.selector(nil).String()})
	return failed("list Jobs", c.namespace, err)
}

// selector matches objects of our kind of runs, and more if asked for.
func (c *Cluster) selector(more labels.Set) labels.Selector {
	set := labels.Set{runcontract.LabelManagedBy: c.managedBy, runcontract.LabelKind: string(c.kind)}
	return labels.SelectorFromSet(labels.Merge(set, more))
}

// labels are what an object of a run carries.
func (c *Cluster) labels(run runs.Run, component string) map[string]string {
	return map[string]string{
		runcontract.LabelManagedBy:   c.managedBy,
		runcontract.LabelKind:        string(c.kind),
		runcontract.LabelRunID:       string(run.ID),
		runcontract.LabelEnvironment: run.Environment,
		runcontract.LabelComponent:   component,
	}
}

func (c *Cluster) jobName(id runs.ID) string { return runcontract.JobName(c.kind, string(id)) }

func (c *Cluster) credentialName(id runs.ID) string {
	return runcontract.CredentialSecretName(c.kind, string(id))
}

func (c *Cluster) outputsName(id runs.ID) string {
	return runcontract.OutputsSecretName(c.kind, string(id))
}

// errForeign means that an object of ours belongs to something else.
var errForeign = errors.New("it exists and does not belong to the run")

// checkOurs says whether an object that has a run's name is the run's.
func checkOurs(object metav1.Object, id runs.ID) error {
	if object.GetLabels()[runcontract.LabelRunID] != string(id) {
		return step(runs.ErrGiveUp, errForeign)
	}
	return nil
}
