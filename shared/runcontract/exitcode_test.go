package runcontract_test

import (
	"testing"

	"github.com/kubeopera/platform/shared/runcontract"
)

func TestEveryExitCodeHasOneErrorCode(t *testing.T) {
	seen := map[runcontract.ErrorCode]runcontract.ExitCode{}
	for exit := range runcontract.ExitCode(256) {
		code, ok := exit.Code()
		if !ok {
			continue
		}
		if exit < 64 || exit > 113 {
			t.Errorf("%s has exit code %d, which shells, signals or the Go runtime give a meaning", code, exit)
		}
		if other, taken := seen[code]; taken {
			t.Errorf("%s has exit codes %d and %d", code, other, exit)
		}
		seen[code] = exit
		if got := code.Exit(); got != exit {
			t.Errorf("%s exits with %d, want %d", code, got, exit)
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d exit codes are known", len(seen))
	}
	if got := runcontract.ErrorCode("unheard_of").Exit(); got != runcontract.ExitInternal {
		t.Errorf("an unknown error code exits with %d, want %d", got, runcontract.ExitInternal)
	}
}
