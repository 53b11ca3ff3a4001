package crash

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/shared/database/pgtest"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim"
)

var jobsPath = regexp.MustCompile(`/jobs$`)

// removeConfigMap deletes the ConfigMap of an environment's run while the request
// for its Job is held, and tells what went wrong, or nothing.
func removeConfigMap(t *testing.T, environment string, done chan<- string) func(context.Context) int {
	t.Helper()
	return func(ctx context.Context) int {
		maps := platform.Kubernetes.CoreV1().ConfigMaps(sim.RunNamespace)
		err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: runcontract.LabelEnvironment + "=" + environment})
		if err != nil {
			done <- err.Error()
			return 0
		}
		done <- ""
		return 0
	}
}

// TestOutputsTampered: somebody who may write a run's outputs puts into them what
// no runner writes. The run must end, and be shown, all the same. Postgres takes
// less than SQLite.
func TestOutputsTampered(t *testing.T) {
	rare(t, true)
	platform.Reconfigure(t, map[string]string{"DATABASE_URL": pgtest.Start(t).Database(t)})
	tests := []map[string]string{
		{"result.json": `{"outcome":"failed","error_code":"a\u0000b","message":"x"}`},
		{"result.json": `{"outcome":"failed","error_code":"` + strings.Repeat("x", 500_000) + `","message":"` + strings.Repeat(`\u001b[31m`, 40_000) + `"}`},
		{"result.json": `{"outcome":"failed","error_code":"state_locked","lock":{"id":"\u0000","who":"x","created":"9999-12-31T23:59:59-14:00"}}`},
		{
			"result.json":   `{"outcome":"\u0000","changes":{"add":-9223372036854775808}}`,
			"progress.json": `{"phase":"apply","done":9223372036854775807,"total":-1,"nodes":[{"name":"\u0000","state":"\u0000"}]}`,
		},
		{"result.json": "{" + strings.Repeat("[", 500_000), "progress.json": strings.Repeat("[", 500_000), "log.gz": "nonsense"},
	}
	var group sync.WaitGroup
	for i, data := range tests {
		run := platform.Start(t, request(fmt.Sprint("tampered-", i), 6))
		group.Go(func() {
			ended, stop := context.WithCancel(t.Context())
			var tampering sync.WaitGroup
			tampering.Go(func() { tamper(ended, run.ID, data) })
			end := waitLong(t, run.ID)
			stop()
			tampering.Wait()
			t.Logf("%d: the run ended %s (%.80q): %.80q", i, end.Status, end.ErrorCode, end.Message)
			if end.FinishedAt == nil || len(end.ErrorCode) > 256 || len(end.Message) > 4096 || strings.ContainsFunc(end.ErrorCode+end.Message, unicode.IsControl) {
				t.Errorf("%d: the run ended %s with a code of %d bytes and a message of %d", i, end.Status, len(end.ErrorCode), len(end.Message))
			}
		})
	}
	group.Wait()
	list, err := platform.Provisioner(t).Provisions(t.Context(), client.ListOptions{})
	if err != nil || len(list.Provisions) != len(tests) {
		t.Errorf("%d runs are listed, want %d: %v", len(list.Provisions), len(tests), err)
	}
}

// tamper writes data into the outputs of a run, over and over until ctx ends.
func tamper(ctx context.Context, id string, data map[string]string) {
	secrets := platform.Kubernetes.CoreV1().Secrets(sim.RunNamespace)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		secret, err := secrets.Get(ctx, runcontract.OutputsSecretName(runcontract.KindProvision, id), metav1.GetOptions{})
		if err == nil {
			for key, value := range data {
				secret.Data[key] = []byte(value)
			}
			_, _ = secrets.Update(ctx, secret, metav1.UpdateOptions{}) // the runner may have been faster
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// TestLockOfAnotherShape: what lies where the lock is comes from anywhere. It is a
// lock all the same, and told of in words that can be shown.
func TestLockOfAnotherShape(t *testing.T) {
	rare(t, true)
	tests := []string{
		`{"ID":"5a3e7c1e-0000-4000-8000-000000000001","Who":"a@b","Created":"9999-12-31T23:59:59-14:00"}`,
		`{"ID":"` + strings.Repeat("i", 3_000_000) + `","Who":"x@y","Created":"2026-11-30T00:00:00Z"}`,
		`{"ID":"5a3e7c1e-0000-4000-8000-000000000001","Who":"\u001b]0;evil\u0007\u0000@provision-","Created":"2026-11-30T00:00:00Z"}`,
		`no JSON`,
	}
	var group sync.WaitGroup
	for i, content := range tests {
		r := request(fmt.Sprint("lock-shape-", i), 0)
		built := platform.Start(t, r)
		group.Go(func() {
			if end := waitLong(t, built.ID); end.Status != api.StatusSucceeded {
				t.Errorf("%d: the first run ended %s: %s", i, end.Status, end.Message)
				return
			}
			err := platform.AWS.S3().PutObject(bucket(r.Name), "terraform.tfstate.tflock", []byte(content))
			run, starting := platform.Provisioner(t).StartProvision(t.Context(), r)
			if err := errors.Join(err, starting); err != nil {
				t.Errorf("%d: %v", i, err)
				return
			}
			end := waitLong(t, run.ID)
			if end.Status != api.StatusFailed || end.ErrorCode != "state_locked" || strings.ContainsFunc(end.Message, unicode.IsControl) {
				t.Errorf("%d: the run ended %s (%s): %.300q", i, end.Status, end.ErrorCode, end.Message)
			}
		})
	}
	group.Wait()
}
