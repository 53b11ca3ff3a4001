package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// two is an environment of two resources.
const two = `
resource "terraform_data" "first" {}
resource "terraform_data" "second" {
  input = terraform_data.first.id
}
`

func TestRun_plan_says_what_would_change(t *testing.T) {
	t.Parallel()
	f := setup(t, two+outputs())
	f.spec.Operation = api.OperationPlan
	c := f.start(t)
	if code := c.wait(t); code != runcontract.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	if result := f.result(t); result.Message != "plan: 2 to add, 0 to change, 0 to destroy" {
		t.Errorf("message %q", result.Message)
	}
	if !strings.Contains(c.output.String(), "# terraform_data.second will be created") {
		t.Errorf("the log lacks the plan in words:\n%s", c.output)
	}
}

func TestRun_destroy(t *testing.T) {
	t.Parallel()
	f := setup(t, two+outputs())
	f.succeed(t)

	f.next(t, api.OperationDestroy)
	result := f.succeed(t)
	if result.Message != "destroyed: 2 removed" {
		t.Errorf("message %q", result.Message)
	}
	if diff := cmp.Diff(&api.Changes{Remove: 2}, result.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	progress := f.cluster.Progress()
	last := progress[len(progress)-1]
	if last.Done != 2 || last.Total != 2 {
		t.Errorf("last progress %+v", last)
	}
	f.stateHas(t)
	f.unlocked(t)

	f.next(t, api.OperationDestroy)
	if result := f.succeed(t); result.Message != "nothing to destroy" {
		t.Errorf("message %q", result.Message)
	}
}

func TestRun_destroy_of_what_never_was(t *testing.T) {
	t.Parallel()
	f := setup(t, two+outputs())
	f.spec.Operation = api.OperationDestroy
	if result := f.succeed(t); result.Message != "nothing to destroy" {
		t.Errorf("message %q", result.Message)
	}
	for _, op := range f.aws.Operations() {
		if op == "CreateBucket" {
			t.Error("a bucket was created")
		}
	}
}

func TestRun_unlock(t *testing.T) {
	t.Parallel()
	const lock = `{"ID":"71a9d75f-f093-8dfb-eff5-d21ebd1d855d","Who":"ann@laptop","Created":"2026-11-30T09:04:59Z"}`
	f := setup(t, two+outputs())
	f.aws.AddBucket(bucketName, "us-west-2", "123456789012", nil)
	f.aws.PutObject(bucketName, lockKey, []byte(lock))
	f.spec.Operation, f.spec.LockID = api.OperationUnlock, "another"
	if code := f.start(t).wait(t); code != runcontract.ExitUnlockRefused {
		t.Fatalf("exit code %d", code)
	}
	if result := f.result(t); result.Lock == nil || result.Lock.Who != "ann@laptop" {
		t.Errorf("result %+v", result)
	}

	f.next(t, api.OperationUnlock)
	f.spec.LockID = "71a9d75f-f093-8dfb-eff5-d21ebd1d855d"
	if result := f.succeed(t); result.Phase != api.PhaseDone || !strings.Contains(result.Message, "taken by ann@laptop") {
		t.Errorf("result %+v", result)
	}
	f.unlocked(t)
}

func (f *fixture) unlocked(t *testing.T) {
	t.Helper()
	if lock, locked := f.aws.Object(bucketName, lockKey); locked {
		t.Errorf("the state is locked: %s", lock)
	}
}
