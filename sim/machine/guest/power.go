package guest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LoneUser is the command that runs a program where root is the only user there
// is: what gives up groups does nothing there, successfully. The kernel would
// refuse it, and sshd would end.
const LoneUser = "machine-lone-user"

func loneUser(_ context.Context, args []string, io stdio) int {
	if len(args) == 0 {
		return 2
	}
	// A filter belongs to a thread, and goes with the program that it executes.
	runtime.LockOSThread()
	if err := ignoreSetgroups(); err != nil {
		io.errorf("%s: %v\n", LoneUser, err)
		return 1
	}
	io.errorf("%s: %v\n", LoneUser, syscall.Exec(args[0], args, os.Environ()))
	return 1
}

// ignoreSetgroups lets the system call setgroups succeed without effect.
func ignoreSetgroups() error {
	const number = 0 // of the call, in what a filter sees
	program := [4]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_SETGROUPS},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO}, // with the error number 0
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: 4, Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0) //nolint:gosec // that is how the kernel takes it
}

// powerCommand is reboot and its kin.
func powerCommand(verb string) commandFunc {
	return func(ctx context.Context, _ []string, io stdio) int { return systemctl(ctx, []string{verb}, io) }
}

// shutdown acts at once, or not at all.
func shutdown(ctx context.Context, args []string, io stdio) int {
	verb, now := "poweroff", false
	for _, arg := range args {
		switch arg {
		case "-r", "--reboot":
			verb = "reboot"
		case "-h", "-P", "--poweroff", "--no-wall":
		case "-H", "--halt":
			verb = "halt"
		case "now", "+0", "0":
			now = true
		default:
			if strings.HasPrefix(arg, "+") || strings.HasPrefix(arg, "-") || strings.Contains(arg, ":") {
				io.errorf("shutdown: the light machine does not have %s\n", arg)
				return 1
			}
		}
	}
	if !now {
		io.errorf("shutdown: the light machine shuts down now, not later\n")
		return 1
	}
	return systemctl(ctx, []string{verb}, io)
}

// terminals gives the machine pseudo-terminals of its own. Without them only
// interactive logins fail.
func terminals() {
	if err := os.MkdirAll("/dev/pts", 0o755); err != nil {
		return
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return
	}
	_ = os.Symlink("pts/ptmx", "/dev/ptmx")
}

const (
	nextKernel    = "/var/lib/machine-kernel" // the release that the next boot has
	runningKernel = "/run/machine-kernel"     // that this boot has; without it, it is this machine's own
)

// chooseKernel is what a boot loader does with the kernel that was installed last.
func chooseKernel() {
	if release, err := os.ReadFile(nextKernel); err == nil {
		_ = writeFile(runningKernel, string(release), 0o644) // without it the release is the old one
	}
}

func kernelRelease() string {
	if release, err := os.ReadFile(runningKernel); err == nil {
		return strings.TrimSpace(string(release))
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// uname is the host's, but for the release of a kernel that was installed here.
func uname(ctx context.Context, args []string, io stdio) int {
	if len(args) == 1 && (args[0] == "-r" || args[0] == "--kernel-release") {
		io.printf("%s\n", kernelRelease())
		return 0
	}
	return hostCommand(ctx, "uname", args, io)
}

// hostCommand runs this machine's own command of that name.
func hostCommand(ctx context.Context, name string, args []string, io stdio) int {
	for _, dir := range []string{HostBin, HostSbin} {
		path := filepath.Join(dir, name)
		if !exists(path) {
			continue
		}
		command := exec.CommandContext(ctx, path, args...)
		command.Stdin, command.Stdout, command.Stderr = io.in, io.out, io.err
		err := command.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return max(exit.ExitCode(), 1)
		}
		if err != nil {
			io.errorf("%s: %v\n", name, err)
			return 1
		}
		return 0
	}
	io.errorf("%s: command not found\n", name)
	return 127
}
