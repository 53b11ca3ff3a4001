package runstest_test

import (
	"testing"

	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
	"github.com/kubeopera/platform/shared/runs/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) runs.Store { return runstest.NewStore() })
}
