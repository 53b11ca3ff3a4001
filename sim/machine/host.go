package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubeopera/platform/sim/machine/guest"
	"github.com/kubeopera/platform/sim/machine/sshd"
	"github.com/kubeopera/platform/sim/sandbox"
)

// host is what machines see of the machine that they run on.
type host struct {
	config   Config
	binDirs  []string          // with commands of users, resolved
	sbinDirs []string          // with commands of administrators
	trees    map[string]string // read-only, by their paths in a machine
	program  string            // this program
	kubectl  string            // empty: there is none
	sshd     sshd.Server       // its zero value: nobody asked for it yet
	loneUser bool              // there is no user but root (a user namespace with one id)
	aws      awsCLI
}

// hostTrees are shown read-only in every machine, where they exist.
var hostTrees = []string{
	"/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/libexec", "/usr/share",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf.d",
}

// diskDirs are a machine's own, by their paths in it, below its directory. /run
// and /tmp are emptied at each boot.
var diskDirs = map[string]string{
	"/etc": "disk/etc", "/var": "disk/var", "/opt": "disk/opt", "/root": "disk/root", "/home": "disk/home", "/srv": "disk/srv",
	"/usr/bin": "disk/bin", "/bin": "disk/bin", "/usr/sbin": "disk/sbin", "/sbin": "disk/sbin", "/usr/local": "disk/local",
	"/snap": "disk/snap", "/tmp": "tmp", "/run": "run", "/.machine": "machine",
}

func findHost(ctx context.Context, config Config) (host, error) {
	h := host{config: config, trees: map[string]string{}}
	var err error
	if h.loneUser, err = loneUser(); err != nil {
		return host{}, err
	}
	if h.program, err = findProgram(config.Dir); err != nil {
		return host{}, err
	}
	h.binDirs = resolved("/usr/bin", "/bin")
	h.sbinDirs = resolved("/usr/sbin", "/sbin")
	for _, path := range hostTrees {
		target, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return host{}, err
		}
		h.trees[path] = target
	}
	kubectl := config.Kubectl
	if kubectl == "" {
		if found, err := exec.LookPath("kubectl"); err == nil {
			kubectl = found
		}
	}
	if kubectl != "" {
		target, err := filepath.EvalSymlinks(kubectl)
		if err != nil {
			return host{}, fmt.Errorf("kubectl: %w", err)
		}
		h.kubectl = target
	}
	if cli := config.Account.CLI(); cli != "" {
		if h.aws, err = findAWS(ctx, cli); err != nil {
			return host{}, fmt.Errorf("AWS CLI: %w", err)
		}
	}
	return h, nil
}

// findProgram finds a path of this program that can be shown to machines: its own,
// or that of a copy where its own cannot be reached.
func findProgram(dir string) (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }()
	path = filepath.Join(dir, "program")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	return path, errors.Join(err, to.Close())
}

// resolved are the directories behind the paths, each once.
func resolved(paths ...string) []string {
	var dirs []string
	for _, path := range paths {
		if target, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(dirs, target) {
			dirs = append(dirs, target)
		}
	}
	return dirs
}

// hostDirs are where the machine's links to the host's commands lead.
func hostDirs(base string, count int) []string {
	dirs := []string{base}
	for i := 1; i < count; i++ {
		dirs = append(dirs, fmt.Sprintf("%s%d", base, i))
	}
	return dirs
}

// makeDisk makes the disk of a machine's first boot.
func (h host) makeDisk(m *Machine) error {
	if err := os.MkdirAll(filepath.Join(m.dir, "root"), 0o755); err != nil {
		return err
	}
	for _, dir := range diskDirs {
		if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", filepath.Join(m.dir, "disk/var/run")); err != nil {
		return err
	}
	links := filepath.Join(m.dir, "machine")
	for _, dir := range append(hostDirs("bin", len(h.binDirs)), hostDirs("sbin", len(h.sbinDirs))...) {
		if err := os.MkdirAll(filepath.Join(links, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("program", filepath.Join(links, filepath.Base(guest.Init))); err != nil {
		return err
	}
	if err := h.linkCommands(m.dir, m.system().rpm); err != nil {
		return err
	}
	if err := h.aws.install(filepath.Join(m.dir, "disk/local/bin/aws")); err != nil {
		return err
	}
	if err := h.writeEtc(m); err != nil {
		return err
	}
	if m.existing != nil {
		return m.existing.install(h)
	}
	return nil
}

// loneUser looks whether other users than root can be had.
func loneUser() (bool, error) {
	content, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(content)) {
		var inside, outside, count int
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil {
			return false, fmt.Errorf("read uid_map: %w", err)
		}
		if inside <= userID && userID < inside+count {
			return false, nil
		}
	}
	return true, nil
}

// uid is that of who logs in on an existing machine.
func (h host) uid() int {
	if h.loneUser {
		return 0
	}
	return userID
}

// linkCommands makes /usr/bin and /usr/sbin of links: to the host's commands, or
// to the stand-ins in their place.
func (h host) linkCommands(dir string, rpm bool) error {
	skip := map[string]bool{}
	for _, name := range append(guest.BaseCommands(rpm), guest.Hidden()...) {
		skip[name] = true
	}
	for target, sources := range map[string]struct {
		dirs []string
		base string
	}{"disk/bin": {h.binDirs, guest.HostBin}, "disk/sbin": {h.sbinDirs, guest.HostSbin}} {
		for i, source := range sources.dirs {
			entries, err := os.ReadDir(source)
			if err != nil {
				return err
			}
			shown := hostDirs(sources.base, i+1)[i]
			for _, entry := range entries {
				if skip[entry.Name()] || strings.HasPrefix(entry.Name(), "systemd") {
					continue
				}
				err := os.Symlink(filepath.Join(shown, entry.Name()), filepath.Join(dir, target, entry.Name()))
				if err != nil && !errors.Is(err, fs.ErrExist) {
					return err
				}
			}
		}
	}
	for _, name := range guest.BaseCommands(rpm) {
		target := "disk/bin"
		if slices.Contains(guest.AdministratorCommands(), name) {
			target = "disk/sbin"
		}
		if err := os.Symlink(guest.Program, filepath.Join(dir, target, name)); err != nil {
			return err
		}
	}
	return nil
}

// freshBoot does to a disk what a power cycle does.
func (h host) freshBoot(dir, bootID string) error {
	for _, name := range []string{"run", "tmp"} {
		path := filepath.Join(dir, name)
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if err := os.RemoveAll(filepath.Join(path, entry.Name())); err != nil {
				return err
			}
		}
	}
	for _, sub := range []string{"run/lock", "disk/var/log", "disk/var/tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(dir, "tmp"), fs.ModeSticky|0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "boot_id"), []byte(bootID+"\n"), 0o444)
}

// mounts are what a machine sees.
func (h host) mounts(m *Machine) []sandbox.Mount {
	var mounts []sandbox.Mount
	dir := m.dir
	add := func(source, target string, readOnly bool) {
		mounts = append(mounts, sandbox.Mount{Source: source, Target: target, ReadOnly: readOnly})
	}
	for target, source := range diskDirs {
		add(filepath.Join(dir, source), target, false)
	}
	// Outer before inner: /usr/lib, then what is below it.
	for target, source := range h.trees {
		add(source, target, true)
	}
	slices.SortFunc(mounts, func(a, b sandbox.Mount) int { return strings.Compare(a.Target, b.Target) })
	for i, target := range hostDirs(guest.HostBin, len(h.binDirs)) {
		add(h.binDirs[i], target, true)
	}
	for i, target := range hostDirs(guest.HostSbin, len(h.sbinDirs)) {
		add(h.sbinDirs[i], target, true)
	}
	add(h.program, guest.Program, true)
	if h.kubectl != "" {
		add(h.kubectl, guest.Kubectl, true)
	}
	if m.existing != nil {
		add(h.sshd.Folder, sshd.Dir, true)
	}
	for _, tree := range h.aws.trees {
		add(tree, tree, true)
	}
	add(filepath.Join(dir, "boot_id"), "/proc/sys/kernel/random/boot_id", true)
	return mounts
}

// onDisk is where a path of a machine is on this machine.
func (h host) onDisk(dir, path string) (string, error) {
	best := ""
	for target := range diskDirs {
		if (path == target || strings.HasPrefix(path, target+"/")) && len(target) > len(best) {
			best = target
		}
	}
	if best == "" {
		return "", fmt.Errorf("%s is not on the machine's disk", path)
	}
	return filepath.Join(dir, diskDirs[best], strings.TrimPrefix(path, best)), nil
}

// removeDisk removes all but what tells how the machine fared.
func (h host) removeDisk(dir string) error {
	logs := filepath.Join(dir, "disk/var/log")
	kept := filepath.Join(dir, "log")
	if err := os.Rename(logs, kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.RemoveAll(filepath.Join(dir, "disk")), os.RemoveAll(filepath.Join(dir, "tmp")), os.RemoveAll(filepath.Join(dir, "run")))
}
