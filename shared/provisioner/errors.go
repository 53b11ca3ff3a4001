package provisioner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
)

// What a connection can fail by. Only an unreachable machine is tried again.
type (
	// AuthError is a login that was refused.
	AuthError = remote.AuthError
	// HostKeyError is a host key that is unknown, or not the one it should be.
	HostKeyError = remote.HostKeyError
	// UnreachableError is a machine that did not answer, after all attempts.
	UnreachableError = remote.UnreachableError
	// PrivilegeError is a user who cannot become root.
	PrivilegeError = remote.PrivilegeError
)

// What a script can fail by, besides StepError.
type (
	// TimeoutError is a script that took too long and was ended.
	TimeoutError = remote.TimeoutError
	// InterruptedError is a script that ended without a result, twice.
	InterruptedError = remote.InterruptedError
)

// Input errors of ProvisionCluster and ResetCluster.
var (
	ErrNoNodes        = errors.New("no nodes to provision")
	ErrNoControlPlane = errors.New("at least one control-plane node is required")
)

// NodeError is what failed on one node. ProvisionCluster joins one for each node
// that failed.
type NodeError struct {
	Node string // NodeInfo.Name
	Step string // name of the script, or of what was done: connect, label, ready …
	Err  error
}

// Error is node, step and cause.
func (e *NodeError) Error() string {
	return fmt.Sprintf("node %s: %s: %v", e.Node, e.Step, e.Err)
}

// Unwrap is the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// StepError is a script that ended with failure on a machine.
type StepError struct {
	Step  string
	Code  int      // exit code
	Class string   // what the code means: dependency, driver, kubernetes …
	Line  int      // of the script, 0 if unknown
	Tail  []string // last lines of the output, secrets masked
	Hint  string   // what to do about it, may be empty
}

// Error says all but the tail, of which it has the last line.
func (e *StepError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "script %s ended with code %d", e.Step, e.Code)
	if e.Class != "" {
		fmt.Fprintf(&b, " (%s)", e.Class)
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, " at line %d", e.Line)
	}
	if n := len(e.Tail); n > 0 {
		fmt.Fprintf(&b, ": %s", e.Tail[n-1])
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "; %s", e.Hint)
	}
	return b.String()
}
