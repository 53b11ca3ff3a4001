package sandbox

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// explain turns a refusal by the kernel into a NotPermittedError. The error may
// have come through a pipe, so its text is all there is to go by.
func explain(err error) error {
	refused := errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) ||
		strings.Contains(err.Error(), syscall.EPERM.Error()) || strings.Contains(err.Error(), syscall.EACCES.Error())
	if !refused {
		return err
	}
	return &NotPermittedError{Err: err, Hint: hint(func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			return "" // the setting does not exist on this kernel
		}
		return strings.TrimSpace(string(content))
	})}
}

// hint names the setting that stands in the way, as far as one is known.
func hint(read func(path string) string) string {
	switch {
	case read("/proc/sys/user/max_user_namespaces") == "0":
		return "run as root, or allow user namespaces: sysctl user.max_user_namespaces=10000"
	case read("/proc/sys/user/max_pid_namespaces") == "0":
		return "allow PID namespaces: sysctl user.max_pid_namespaces=10000"
	case read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "run as root, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1"
	case read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "run as root, or lift AppArmor's restriction: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
	default:
		return "run as root, or, in a container, with --privileged: it takes CAP_SYS_ADMIN, or user namespaces and a /proc with nothing masked"
	}
}
