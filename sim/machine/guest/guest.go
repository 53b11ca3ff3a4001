package guest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
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
		"dnf": dnf, "yum": dnf, "rpm": rpm, "getenforce": getenforce, "setenforce": setenforce, "grubby": succeed,
		"gpg": gpg, "modprobe": succeed, "sysctl": sysctl, "swapoff": succeed, "cloud-init": cloudInit,
		"hostnamectl": succeed, "timedatectl": succeed, "ufw": succeed, "update-ca-certificates": succeed, "update-grub": succeed,
		"sudo": sudo, LoneUser: loneUser, "ip": ip, "hostname": hostname, "uname": uname,
		"reboot": powerCommand("reboot"), "poweroff": powerCommand("poweroff"), "halt": powerCommand("halt"), "shutdown": shutdown,
	}
}

// installed are those that packages bring.
func installed() map[string]commandFunc {
	return map[string]commandFunc{
		"containerd": containerd, "kubelet": kubelet, "kubeadm": kubeadm, "kubectl": kubectl, "crictl": crictl, "ctr": succeed,
		"conntrack": succeed, "socat": succeed, "docker": docker, "dockerd": dockerd, "cri-dockerd": criDockerd, "crio": crio,
		"nvidia-ctk": nvidiaCTK,
	}
}

// BaseCommands are the names that lead to Program on a fresh machine, whose
// packages are RPMs or Debian's.
func BaseCommands(rpm bool) []string {
	others := rpmCommands()
	if rpm {
		others = debianCommands()
	}
	var names []string
	for name := range base() {
		if !slices.Contains(others, name) {
			names = append(names, name)
		}
	}
	return names
}

func rpmCommands() []string {
	return []string{"dnf", "yum", "rpm", "getenforce", "setenforce", "grubby"}
}

func debianCommands() []string {
	return []string{"apt-get", "apt", "apt-cache", "apt-mark", "dpkg", "dpkg-query", "snap", "ufw", "update-ca-certificates", "update-grub"}
}

// AdministratorCommands are those of the base commands that are in /usr/sbin.
func AdministratorCommands() []string {
	return []string{
		"modprobe", "sysctl", "swapoff", "ip", "reboot", "poweroff", "halt", "shutdown", "getenforce", "setenforce", "grubby", "update-grub",
	}
}

// Launcher is a script that is the stand-in of that name wherever it lies.
func Launcher(name string) string {
	return "#!/bin/bash\nexec -a " + name + " " + Program + " \"$@\"\n"
}

// Hidden are further commands of a host that a fresh machine does not have.
func Hidden() []string {
	names := []string{
		"etcd", "etcdctl", "podman", "runc", "nerdctl", "kube-apiserver", "minikube", "kind", "helm",
		"aptitude", "apt-key", "apt-config", "dpkg-deb", "add-apt-repository", "unattended-upgrade", "pacman", "zypper",
		"aws", "terraform", "go", "init", "telinit", "runlevel",
		"networkctl", "resolvectl", "loginctl", "systemd-run", "systemd-notify", "swapon",
	}
	names = append(names, rpmCommands()...)
	names = append(names, debianCommands()...)
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
