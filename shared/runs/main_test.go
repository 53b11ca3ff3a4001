package runs

import (
	"testing"

	"go.uber.org/goleak"

	_ "github.com/kubeopera/platform/shared/golden" // the flag -update
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
