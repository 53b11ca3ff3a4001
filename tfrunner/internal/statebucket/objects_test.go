package statebucket

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runner/awsfake"
)

const (
	stateKey = "terraform.tfstate"
	lockJSON = `{"ID":"71a9d75f","Operation":"OperationTypeApply","Info":"","Who":"nonroot@provision-1-abcde","Version":"1.11.4","Created":"2026-11-30T09:04:59.5Z","Path":"b/terraform.tfstate"}`
)

func objects(t *testing.T) (*awsfake.Server, *Objects) {
	t.Helper()
	fake := awsfake.New(t)
	fake.AddBucket(name, "us-west-2", awsfake.Account, nil)
	return fake, config(fake, "eu-west-1").Objects(Bucket{Region: "us-west-2"}, stateKey, "")
}

func TestLock(t *testing.T) {
	t.Parallel()
	fake, o := objects(t)
	if lock, err := o.Lock(t.Context()); lock != nil || err != nil {
		t.Fatalf("lock %+v, error %v", lock, err)
	}
	fake.PutObject(name, LockKey(stateKey), []byte(lockJSON))
	lock, err := o.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := api.StateLock{ID: "71a9d75f", Who: "nonroot@provision-1-abcde", Created: time.Date(2026, 11, 30, 9, 4, 59, 5e8, time.UTC)}
	if diff := cmp.Diff(want, lock.StateLock); diff != "" {
		t.Errorf("lock (-want +got):\n%s", diff)
	}
	if host := Host(lock.StateLock); host != "provision-1-abcde" {
		t.Errorf("host %q", host)
	}
	if removed, err := o.Unlock(t.Context(), *lock); !removed || err != nil {
		t.Errorf("removed %v, error %v", removed, err)
	}
	if keys := fake.Keys(name); len(keys) > 0 {
		t.Errorf("objects %v", keys)
	}
}

func TestUnlock_leaves_a_lock_that_was_taken_since(t *testing.T) {
	t.Parallel()
	fake, o := objects(t)
	fake.PutObject(name, LockKey(stateKey), []byte(lockJSON))
	lock, err := o.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fake.PutObject(name, LockKey(stateKey), []byte(`{"ID":"other"}`))
	if removed, err := o.Unlock(t.Context(), *lock); removed || err != nil {
		t.Errorf("removed %v, error %v", removed, err)
	}
	if _, locked := fake.Object(name, LockKey(stateKey)); !locked {
		t.Error("the other lock is gone")
	}
}

func TestUnlock_that_somebody_else_or_a_lost_answer_was_ahead_of(t *testing.T) {
	t.Parallel()
	fake, o := objects(t)
	fake.PutObject(name, LockKey(stateKey), []byte(lockJSON))
	lock, err := o.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conflicts := 2
	fake.SetFault(func(op, _ string) (string, int) {
		if op == "DeleteObject" && conflicts > 0 {
			conflicts--
			return "ConditionalRequestConflict", http.StatusConflict
		}
		return "", 0
	})
	for range 2 { // the second time, it is gone
		if removed, err := o.Unlock(t.Context(), *lock); !removed || err != nil {
			t.Errorf("removed %v, error %v", removed, err)
		}
	}
}

func TestUnlock_where_deletions_have_no_conditions(t *testing.T) {
	t.Parallel()
	fake, o := objects(t)
	fake.PutObject(name, LockKey(stateKey), []byte(lockJSON))
	lock, err := o.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fake.SetFault(on("DeleteObject", "NotImplemented", http.StatusNotImplemented))
	if removed, err := o.Unlock(t.Context(), *lock); removed || err == nil {
		t.Errorf("removed %v, error %v", removed, err)
	}
}

func TestRescued(t *testing.T) {
	t.Parallel()
	fake, o := objects(t)
	const state = `{"version":4,"lineage":"l","serial":7}`
	if err := o.Rescue(t.Context(), "run-1", []byte(state)); err != nil {
		t.Fatal(err)
	}
	if err := o.Rescue(t.Context(), "run-2", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := o.SetAside(t.Context(), "run-2", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	ids, err := o.Rescued(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"run-1"}, ids); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	got, err := o.ReadRescued(t.Context(), "run-1")
	if err != nil || string(got) != state {
		t.Errorf("state %s, error %v", got, err)
	}
	if v, err := ReadVersion(got); err != nil || v != (Version{Lineage: "l", Serial: 7}) {
		t.Errorf("version %+v, error %v", v, err)
	}
	if err := o.DropRescued(t.Context(), "run-1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"rescue/superseded/run-2.tfstate"}, fake.Keys(name)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if _, err := o.ReadRescued(t.Context(), "run-1"); err == nil {
		t.Error("no error")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	fake, o := objects(t)
	if _, found, err := o.Version(t.Context()); found || err != nil {
		t.Errorf("found %v, error %v", found, err)
	}
	fake.PutObject(name, stateKey, []byte(`{"version":4,"lineage":"l","serial":7}`))
	if v, found, err := o.Version(t.Context()); !found || err != nil || v.Serial != 7 {
		t.Errorf("version %+v, found %v, error %v", v, found, err)
	}
	fake.PutObject(name, stateKey, []byte(`[]`))
	if _, _, err := o.Version(t.Context()); err == nil {
		t.Error("no error")
	}
}

// TestParseLock_of_what_no_Terraform_writes: whoever can write to the bucket can
// write a lock. It must not keep a run from telling its result.
func TestParseLock_of_what_no_Terraform_writes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data string
		want api.StateLock
	}{
		"nothing":                  {``, api.StateLock{}},
		"no object":                {`[]`, api.StateLock{}},
		"a number":                 {`{"ID":7}`, api.StateLock{}},
		"a year that UTC lacks":    {`{"ID":"x","Created":"9999-12-31T23:59:59-14:00"}`, api.StateLock{ID: "x"}},
		"a year before all":        {`{"ID":"x","Created":"0000-01-01T00:00:00+14:00"}`, api.StateLock{ID: "x"}},
		"an id that fits nowhere":  {`{"ID":"` + strings.Repeat("x", 1<<20) + `"}`, api.StateLock{}},
		"a name that fits nowhere": {`{"ID":"x","Who":"` + strings.Repeat("x", 1<<20) + `"}`, api.StateLock{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, ParseLock([]byte(c.data))); diff != "" {
				t.Errorf("lock (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add([]byte(lockJSON))
	f.Add([]byte(`{"ID":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := ParseLock(data)
		if host := Host(l); len(host) > len(l.Who) {
			t.Errorf("host %q of %q", host, l.Who)
		}
		if _, err := json.Marshal(l); err != nil {
			t.Errorf("%q made a lock that cannot be told: %v", data, err)
		}
	})
}

func FuzzReadVersion(f *testing.F) {
	f.Add([]byte(`{"version":4,"lineage":"l","serial":7}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := ReadVersion(data); err != nil && v != (Version{}) {
			t.Errorf("%+v, %v", v, err)
		}
	})
}
