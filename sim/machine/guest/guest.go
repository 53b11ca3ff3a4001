package guest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Where things are in a machine.
const (
	// Program is this program.
	Program = "/.machine/program"
	// Init is the name of the machine's first process.
	Init = "/.machine/init"
	// HostBin and HostSbin are the host's own commands.
	HostBin  = "/.machine/bin"
	HostSbin = "/.machine/sbin"
	// Kubectl is the real kubectl.
	Kubectl = "/.machine/kubectl"

	managerSocket = "/run/systemd/private"
	journalFile   = "/var/log/journal/journal"
	// unitDir is where packages here put their units.
	unitDir = "/usr/local/lib/systemd/system"
)

// stdio is what a command speaks through.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

func (s stdio) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }
func (s stdio) errorf(format string, args ...any) { _, _ = fmt.Fprintf(s.err, format, args...) }

type commandFunc func(ctx context.Context, args []string, io stdio) int

// base are the commands that a machine has from the start.
func base() map[string]commandFunc {
	return map[string]commandFunc{
		"systemctl": systemctl, "journalctl": journalctl, "systemd-cat": systemdCat, "logger": logger,
		"apt-get": aptGet, "apt": aptGet, "apt-cache": aptCache, "apt-mark": aptMark, "dpkg": dpkg, "dpkg-query": dpkg, "snap": snap,
		"gpg": gpg, "modprobe": succeed, "sysctl": sysctl, "swapoff": succeed, "cloud-init": cloudInit,
		"hostnamectl": succeed, "timedatectl": succeed, "ufw": succeed, "update-ca-certificates": succeed,
	}
}

// installed are those that packages bring.
func installed() map[string]commandFunc {
	return map[string]commandFunc{
		"containerd": containerd, "kubelet": kubelet, "kubeadm": kubeadm, "kubectl": kubectl, "crictl": crictl, "ctr": succeed,
		"conntrack": succeed, "socat": succeed,
	}
}

// BaseCommands are the names that lead to Program on a fresh machine.
func BaseCommands() []string {
	var names []string
	for name := range base() {
		names = append(names, name)
	}
	return names
}

// Hidden are further commands of a host that a fresh machine does not have.
func Hidden() []string {
	names := []string{
		"etcd", "etcdctl", "docker", "dockerd", "podman", "runc", "nerdctl", "kube-apiserver", "minikube", "kind", "helm",
		"aptitude", "apt-key", "apt-config", "dpkg-deb", "add-apt-repository", "unattended-upgrade", "yum", "dnf", "rpm", "pacman", "zypper",
		"aws", "terraform", "go", "reboot", "shutdown", "poweroff", "halt", "init", "telinit", "runlevel",
		"networkctl", "resolvectl", "loginctl", "systemd-run", "systemd-notify", "swapon",
	}
	for name := range installed() {
		names = append(names, name)
	}
	return names
}

// Main takes over if the program runs in a machine.
func Main() {
	if self, err := os.Readlink("/proc/self/exe"); err != nil || self != Program {
		return
	}
	name := filepath.Base(os.Args[0])
	if os.Args[0] == Init {
		syscall.Exit(firstProcess())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	command, ok := base()[name]
	if !ok {
		command, ok = installed()[name]
	}
	if name == managerName {
		command, ok = manage, true
	}
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: the light machine has no stand-in of that name\n", name)
		syscall.Exit(127) //nolint:gocritic // nothing to clean up
	}
	// Not os.Exit, with which a program that was built to find races rests a second.
	syscall.Exit(command(ctx, os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

func succeed(context.Context, []string, stdio) int { return 0 }
