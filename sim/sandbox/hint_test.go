package sandbox

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestHint(t *testing.T) {
	tests := []struct {
		name     string
		settings map[string]string
		want     string
	}{
		{name: "no user namespaces", settings: map[string]string{"/proc/sys/user/max_user_namespaces": "0"}, want: "user.max_user_namespaces"},
		{name: "no PID namespaces", settings: map[string]string{"/proc/sys/user/max_pid_namespaces": "0"}, want: "user.max_pid_namespaces"},
		{name: "Debian's switch", settings: map[string]string{"/proc/sys/kernel/unprivileged_userns_clone": "0"}, want: "kernel.unprivileged_userns_clone"},
		{name: "Ubuntu's AppArmor switch", settings: map[string]string{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, want: "kernel.apparmor_restrict_unprivileged_userns"},
		{name: "a container", want: "--privileged"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := hint(func(path string) string { return tt.settings[path] })
			if !strings.Contains(got, tt.want) {
				t.Errorf("hint %q does not name %q", got, tt.want)
			}
		})
	}
}

func TestExplainKeepsOtherErrors(t *testing.T) {
	refused := explain(fmt.Errorf("make namespaces: %w", syscall.EPERM))
	if _, ok := errors.AsType[*NotPermittedError](refused); !ok {
		t.Errorf("EPERM gave %v, want a NotPermittedError", refused)
	}
	if !errors.Is(refused, syscall.EPERM) {
		t.Errorf("%v does not wrap EPERM", refused)
	}
	other := errors.New("no space left on device")
	if got := explain(other); got != other { //nolint:errorlint // the very same error
		t.Errorf("another error gave %v", got)
	}
}
