package machine

import (
	"github.com/kubeopera/platform/sim/machine/guest"
	"github.com/kubeopera/platform/sim/sandbox"
)

// Enter continues the program inside a sandbox (see sandbox.Enter). In a machine,
// where the program is one of its commands, it does not return.
func Enter() error {
	guest.Main()
	return sandbox.Enter()
}
