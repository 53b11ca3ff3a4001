package jobrun

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// outputsBatch bounds the runs in one label selector: at 37 bytes each it stays
// far below the length of a request line that proxies take.
const outputsBatch = 50

// Outputs reads what the runners of these runs have published. Secrets of other
// runs stay for good, so they are selected by run and not by kind.
func (c *Cluster) Outputs(ctx context.Context, ids []runs.ID) (map[runs.ID]runs.Outputs, error) {
	all := map[runs.ID]runs.Outputs{}
	for batch := range slices.Chunk(ids, outputsBatch) {
		names := make([]string, len(batch))
		for i, id := range batch {
			names[i] = string(id)
		}
		selector := fmt.Sprintf("%s=%s,%s in (%s)", runcontract.LabelComponent, runcontract.ComponentOutputs, runcontract.LabelRunID, strings.Join(names, ","))
		list, err := c.client.CoreV1().Secrets(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, failed("list outputs of", c.namespace, err)
		}
		for _, s := range list.Items {
			if id := runs.ID(s.Labels[runcontract.LabelRunID]); s.Name == c.outputsName(id) {
				all[id] = parseOutputs(&s)
			}
		}
	}
	return all, nil
}

// Output gives one key of a run's outputs.
func (c *Cluster) Output(ctx context.Context, id runs.ID, key string) ([]byte, error) {
	name := c.outputsName(id)
	secret, err := c.client.CoreV1().Secrets(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("outputs of run %s: %w", id, runs.ErrNotFound)
	}
	if err != nil {
		return nil, failed("get Secret", name, err)
	}
	data, ok := secret.Data[key]
	if !ok {
		return nil, fmt.Errorf("output %s of run %s: %w", key, id, runs.ErrNotFound)
	}
	return data, nil
}

// DeleteOutputs deletes a run's outputs, if there are any.
func (c *Cluster) DeleteOutputs(ctx context.Context, id runs.ID) error {
	name := c.outputsName(id)
	err := c.client.CoreV1().Secrets(c.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return failed("delete Secret", name, err)
}

// readOutputs reads what a run's runner has published; empty if nothing.
func (c *Cluster) readOutputs(ctx context.Context, id runs.ID) (runs.Outputs, error) {
	name := c.outputsName(id)
	secret, err := c.client.CoreV1().Secrets(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return runs.Outputs{}, nil
	}
	if err != nil {
		return runs.Outputs{}, failed("get Secret", name, err)
	}
	return parseOutputs(secret), nil
}

// parseOutputs takes what can be read: a runner of another release, or one that
// was killed, must not keep its run from ending.
func parseOutputs(secret *corev1.Secret) runs.Outputs {
	var out runs.Outputs
	if p, ok := parse[runcontract.Progress](secret.Data[runcontract.KeyProgress]); ok {
		out.Progress = &p
	}
	if r, ok := parse[runcontract.Result](secret.Data[runcontract.KeyResult]); ok {
		out.Result = &r
	}
	return out
}

func parse[T any](data []byte) (value T, ok bool) {
	return value, len(data) > 0 && json.Unmarshal(data, &value) == nil
}
