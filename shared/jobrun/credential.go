package jobrun

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// EnsureCredential makes the credential Secret. It is immutable, so that no node
// has to watch it.
func (c *Cluster) EnsureCredential(ctx context.Context, run runs.Run, files map[string][]byte) error {
	name := c.credentialName(run.ID)
	size := 0
	for _, data := range files {
		size += len(data)
	}
	if size > corev1.MaxSecretSize {
		return failed("create Secret", name, step(runs.ErrGiveUp, fmt.Errorf("%d bytes; a Secret holds %d at most", size, corev1.MaxSecretSize)))
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace, Labels: c.labels(run, runcontract.ComponentCredential)},
		Type:       corev1.SecretTypeOpaque,
		Immutable:  new(true),
		Data:       files,
	}
	_, err := c.client.CoreV1().Secrets(c.namespace).Create(ctx, secret, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return refused("create Secret", name, err)
	}
	made, err := c.client.CoreV1().Secrets(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return failed("get Secret", name, err)
	}
	return failed("create Secret", name, checkOurs(made, run.ID))
}

// DeleteCredential deletes a run's credential Secret, if there is one.
func (c *Cluster) DeleteCredential(ctx context.Context, id runs.ID) error {
	name := c.credentialName(id)
	err := c.client.CoreV1().Secrets(c.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return failed("delete Secret", name, err)
}

// credentialPage bounds how many credentials are in memory at a time.
const credentialPage = 100

// Credentials lists the credential Secrets of our service's runs.
func (c *Cluster) Credentials(ctx context.Context) ([]runs.CredentialSecret, error) {
	var all []runs.CredentialSecret
	options := metav1.ListOptions{
		LabelSelector: c.selector(labels.Set{runcontract.LabelComponent: runcontract.ComponentCredential}).String(),
		Limit:         credentialPage,
	}
	for {
		page, err := c.client.CoreV1().Secrets(c.namespace).List(ctx, options)
		if err != nil {
			return nil, failed("list Secrets of", c.namespace, err)
		}
		for _, s := range page.Items {
			id := runs.ID(s.Labels[runcontract.LabelRunID])
			if s.Name == c.credentialName(id) { // else it is not ours to delete
				all = append(all, runs.CredentialSecret{Run: id, CreatedAt: created(&s)})
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

func created(object metav1.Object) time.Time { return object.GetCreationTimestamp().Time }
