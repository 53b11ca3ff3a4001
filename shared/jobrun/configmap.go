package jobrun

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// maxConfigMapSize is what the API server takes as data of a ConfigMap.
const maxConfigMapSize = 1 << 20

// EnsureConfigMap makes the run's ConfigMap, immutable. One with other content,
// from a release that rendered the run before a crash, is replaced.
func (c *Cluster) EnsureConfigMap(ctx context.Context, run runs.Run, files map[string]string) error {
	name := c.jobName(run.ID)
	size := 0
	for _, data := range files {
		size += len(data)
	}
	if size > maxConfigMapSize {
		return failed("create ConfigMap", name, step(runs.ErrGiveUp,
			fmt.Errorf("the run's files are %d bytes in all, a ConfigMap holds %d at most; ask for less, for example fewer tags", size, maxConfigMapSize)))
	}
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace, Labels: c.labels(run, runcontract.ComponentRun)},
		Immutable:  new(true),
		Data:       files,
	}
	configMaps := c.client.CoreV1().ConfigMaps(c.namespace)
	_, err := configMaps.Create(ctx, wanted, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return refused("create ConfigMap", name, err)
	}
	made, err := configMaps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return failed("get ConfigMap", name, err)
	}
	if err := checkOurs(made, run.ID); err != nil {
		return failed("create ConfigMap", name, err)
	}
	if maps.Equal(made.Data, files) {
		return nil
	}
	// Only the one that was looked at: another replica may be at the same.
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}}
	if err := configMaps.Delete(ctx, name, options); err != nil && !apierrors.IsNotFound(err) {
		return failed("replace ConfigMap", name, err)
	}
	_, err = configMaps.Create(ctx, wanted, metav1.CreateOptions{})
	return refused("create ConfigMap", name, err)
}
