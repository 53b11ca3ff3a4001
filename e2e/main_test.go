package e2e

import (
	"testing"

	"github.com/kubeopera/platform/e2e/harness"
)

// platform is the simulator that all tests share.
var platform *harness.Platform

func TestMain(m *testing.M) {
	harness.Main(m, nil, func(p *harness.Platform) { platform = p })
}
