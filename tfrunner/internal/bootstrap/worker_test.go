package bootstrap

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
)

const statuses = "/kubeopera/acme/bootstrap_status/"

func TestWorkers_that_report(t *testing.T) {
	t.Parallel()
	l := layout(1)
	l.Since = time.Unix(1000, 0)
	got := readWorkers(l, map[string]string{
		statuses + "worker-i-5":        "FAILED|kubeadm join|i-5|1004|no route to host",
		statuses + "worker-i-1":        "RUNNING|packages|i-1|1000|",
		statuses + "worker-i-2":        "DONE|done|i-2|1001|worker ip-10-0-0-7",
		statuses + "worker-i-3":        "DONE|done|i-3|999|of an earlier run",
		statuses + "worker-i-4":        "RUNNING|packages|i-9|1004|of another instance",
		statuses + "worker-i-6":        "PENDING",
		statuses + "worker-\x1b[31m":   "RUNNING|packages|i-7|1004|",
		statuses + "control-plane-0":   "RUNNING|packages|i-8|1004|",
		"/kubeopera/acme/join_token":   "RUNNING|packages|i-8|1004|",
		"/kubeopera/other/worker-i-10": "RUNNING|packages|i-10|1004|",
	})
	var lines []string
	for _, n := range got {
		lines = append(lines, fmt.Sprintf("%s (%s) %s: %s", n.Name, n.Instance, n.State, n.Message))
	}
	want := []string{
		"worker-i-1 (i-1) working: packages",
		"worker-i-2 (i-2) joined: joined",
		"worker-i-5 (i-5) failed: failed: kubeadm join: no route to host",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("workers (-want +got):\n%s", diff)
	}
}

func TestUntil_shows_workers_and_waits_for_none(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(1, values("READY:u:h", "YXBp", "JOINED:i-0:1"))
		maps.Copy(w.store.values, map[string]string{
			statuses + "worker-i-1": "FAILED|packages|i-1|1|no",
			statuses + "worker-i-2": "RUNNING|packages|i-2|1|",
			statuses + "worker-i-3": "RUNNING|packages|i-3|1|",
			statuses + "worker-i-4": "RUNNING|packages|i-4|1|",
		})
		c, err := w.Until(t.Context(), Cluster.Complete)
		if err != nil || len(c.Workers) != 4 || len(c.Nodes) != 1 {
			t.Errorf("%+v, %v", c, err)
		}
		if diff := cmp.Diff([]string{"/kubeopera/acme/bootstrap_status", "/kubeopera/acme/bootstrap_status", "/kubeopera/acme/bootstrap_status"}, w.store.paths); diff != "" {
			t.Errorf("paths (-want +got):\n%s", diff)
		}
	})
}

func TestUntil_goes_on_without_workers_that_cannot_be_read(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		denied      error
		asked, told int
	}{
		"not allowed": {&smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform: ssm:GetParametersByPath"}, 1, 1},
		"throttled":   {throttled(), 3, 0},
		"unreachable": {errors.New("connection reset by peer"), 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := watch(1, values("READY:u:h", "YXBp", "PENDING"))
				w.store.denied = tt.denied
				polls := 0
				if _, err := w.Until(t.Context(), func(Cluster) bool { polls++; return polls == 3 }); err != nil {
					t.Fatal(err)
				}
				if len(w.store.paths) != tt.asked || len(w.unseen) != tt.told || len(w.troubles) != 0 {
					t.Errorf("asked %d times, unseen %v, troubles %v", len(w.store.paths), w.unseen, w.troubles)
				}
			})
		})
	}
}
