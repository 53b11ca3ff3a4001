package runapi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/runapi"
	"github.com/kubeopera/platform/shared/runs"
)

func TestProblemOfWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	r := runapi.Resource{Singular: "provision", Plural: "provisions"}
	for cause, want := range map[error]string{
		runs.ErrTooManyWaiters:   "503 too_many_waiters",
		runs.ErrTooManyFollowers: "503 too_many_followers",
	} {
		p := r.Problem(fmt.Errorf("get: %w", cause))
		if p == nil {
			t.Errorf("%v is no problem", cause)
			continue
		}
		if diff := cmp.Diff(want, fmt.Sprintf("%d %s", p.Status, p.Code)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", cause, diff)
		}
	}
	if p := r.Problem(errors.New("something else")); p != nil {
		t.Errorf("what nobody knows is %+v", p)
	}
}
