package sessionmanager_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager"
)

// TestWhatTryingAgainDoesNotMend: who connects is told by a method of the error.
func TestWhatTryingAgainDoesNotMend(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&sessionmanager.AccessDeniedError{Action: "ssm:StartSession"}, true},
		{&sessionmanager.EncryptionRequiredError{}, true},
		{&sessionmanager.TargetNotConnectedError{}, false}, // its agent may be starting
		{&sessionmanager.LostError{}, false},
	} {
		var p interface{ Permanent() bool }
		if got := errors.As(fmt.Errorf("dial: %w", test.err), &p) && p.Permanent(); got != test.want {
			t.Errorf("%T: permanent %t", test.err, got)
		}
	}
}
