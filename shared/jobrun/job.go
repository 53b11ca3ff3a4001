package jobrun

import (
	"context"
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// EnsureJob makes the run's Job, or adopts it. Its labels, and its pods', are set
// here, since all else finds them by these.
func (c *Cluster) EnsureJob(ctx context.Context, run runs.Run, job *batchv1.Job) (*batchv1.Job, error) {
	name := c.jobName(run.ID)
	if job.Name != name {
		return nil, failed("create Job", name, step(runs.ErrGiveUp, fmt.Errorf("it was rendered with the name %q", job.Name)))
	}
	wanted := job.DeepCopy()
	wanted.Namespace = c.namespace
	for _, labels := range []*map[string]string{&wanted.Labels, &wanted.Spec.Template.Labels} {
		if *labels == nil {
			*labels = map[string]string{}
		}
		maps.Copy(*labels, c.labels(run, runcontract.ComponentRun))
	}
	jobs := c.client.BatchV1().Jobs(c.namespace)
	made, err := jobs.Create(ctx, wanted, metav1.CreateOptions{})
	if err == nil {
		return made, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, refused("create Job", name, err)
	}
	made, err = jobs.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, failed("get Job", name, err)
	}
	if err := checkOurs(made, run.ID); err != nil {
		return nil, failed("create Job", name, err)
	}
	return made, nil
}

// Own makes the Job the owner of the ConfigMap and the credential Secret, so that
// they go when the Job does. The references do not block the Job's deletion. What
// is gone already needs no owner.
func (c *Cluster) Own(ctx context.Context, run runs.Run, job *batchv1.Job) error {
	owner := []metav1.OwnerReference{{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID}}

	name := c.jobName(run.ID)
	configMaps := c.client.CoreV1().ConfigMaps(c.namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		made, err := configMaps.Get(ctx, name, metav1.GetOptions{})
		if err != nil || ownedBy(made, job) {
			return err
		}
		made.OwnerReferences = owner
		_, err = configMaps.Update(ctx, made, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return failed("set the owner of ConfigMap", name, err)
	}

	name = c.credentialName(run.ID)
	secrets := c.client.CoreV1().Secrets(c.namespace)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		made, err := secrets.Get(ctx, name, metav1.GetOptions{})
		if err != nil || ownedBy(made, job) {
			return err
		}
		made.OwnerReferences = owner
		_, err = secrets.Update(ctx, made, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return failed("set the owner of Secret", name, err)
	}
	return nil
}

func ownedBy(object metav1.Object, job *batchv1.Job) bool {
	refs := object.GetOwnerReferences()
	return len(refs) == 1 && refs[0].UID == job.UID
}

// DeleteJob deletes the Job in the foreground: it stays, marked, until its pod has
// ended, and the pod has its whole grace period for that.
func (c *Cluster) DeleteJob(ctx context.Context, id runs.ID) error {
	name := c.jobName(id)
	err := c.client.BatchV1().Jobs(c.namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return failed("delete Job", name, err)
}
