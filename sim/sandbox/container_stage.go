package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// containerStage is what a container's first process does before its command:
// it builds the file tree, moves into it and executes the command. It never
// returns.
func containerStage() {
	unix.CloseOnExec(reportDescriptor)
	unix.CloseOnExec(specDescriptor)
	err := becomeContainer(os.NewFile(specDescriptor, "spec"))
	_, _ = io.WriteString(os.NewFile(reportDescriptor, "report"), err.Error())
	os.Exit(1)
}

// becomeContainer returns only with an error.
func becomeContainer(spec io.Reader) error {
	var c Container
	if err := json.NewDecoder(spec).Decode(&c); err != nil {
		return fmt.Errorf("read container: %w", err)
	}
	if c.Hostname != "" {
		if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
			return fmt.Errorf("set host name: %w", err)
		}
	}
	if err := c.enterRoot(); err != nil {
		return err
	}
	dir := c.Dir
	if dir == "" {
		dir = "/"
	}
	// Runtimes make a working directory that the image lacks.
	if err := os.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("make working directory: %w", err)
	}
	if c.ReadOnlyRoot {
		if err := setReadOnly(unix.AT_FDCWD, "/", 0); err != nil {
			return fmt.Errorf("make root read-only: %w", err)
		}
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("change to working directory: %w", err)
	}
	if c.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("forbid new privileges: %w", err)
		}
	}
	path, err := lookPath(c.Args, c.Env)
	if err != nil {
		return err
	}
	if err := syscall.Exec(path, c.Args, c.Env); err != nil {
		return fmt.Errorf("exec: %q: %w", path, err)
	}
	return nil
}

// enterRoot makes the container's file tree and makes it the root.
//
// Sources are cloned as detached mounts while the machine's files can still be
// seen, and attached once they cannot: a link inside the container's tree thus
// never leads a mount out of it.
func (c Container) enterRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	mounts := append(devices(), c.Mounts...)
	trees := make([]tree, len(mounts))
	for i, m := range mounts {
		t, err := clone(m)
		if err != nil {
			return err
		}
		trees[i] = t
	}

	if err := unix.Mount("tmpfs", c.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount root: %w", err)
	}
	if err := os.Chdir(c.Root); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	for _, dir := range []string{"proc", "dev", "sys", "etc"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make root: %w", err)
		}
	}
	// While the old /proc can be seen: in a user namespace the kernel allows a
	// new one only then.
	if err := unix.Mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "dev", "tmpfs", unix.MS_NOSUID, "mode=0755,size=65536k"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	// Stacks the old root on the new one, and takes it off again.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}

	if err := os.Mkdir("/dev/shm", 0o1777); err != nil {
		return fmt.Errorf("make /dev/shm: %w", err)
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, filepath.Join("/dev", name)); err != nil {
			return fmt.Errorf("make /dev: %w", err)
		}
	}
	for i, m := range mounts {
		if err := trees[i].attach(m.Target); err != nil {
			return err
		}
	}
	return nil
}

func devices() []Mount {
	var mounts []Mount
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		path := "/dev/" + name
		if _, err := os.Stat(path); err == nil {
			mounts = append(mounts, Mount{Source: path, Target: path})
		}
	}
	return mounts
}

// tree is a detached copy of a mount.
type tree struct {
	descriptor int
	directory  bool
}

// clone copies a mount's source with all that is mounted below it, which a user
// namespace must not be without.
func clone(m Mount) (tree, error) {
	info, err := os.Stat(m.Source)
	if err != nil {
		return tree{}, fmt.Errorf("mount %s: %w", m.Target, err)
	}
	descriptor, err := unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("mount %s: copy %s: %w", m.Target, m.Source, err)
	}
	if m.ReadOnly {
		if err := setReadOnly(descriptor, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE); err != nil {
			return tree{}, fmt.Errorf("mount %s: make read-only: %w", m.Target, err)
		}
	}
	return tree{descriptor: descriptor, directory: info.IsDir()}, nil
}

// attach mounts the copy at a target, which is made if need be.
func (t tree) attach(target string) error {
	defer func() { _ = unix.Close(t.descriptor) }()
	if err := t.makeTarget(target); err != nil {
		return fmt.Errorf("mount %s: make mount point: %w", target, err)
	}
	if err := unix.MoveMount(t.descriptor, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

func (t tree) makeTarget(target string) error {
	if t.directory {
		return os.MkdirAll(target, 0o755)
	}
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

func setReadOnly(dirfd int, path string, flags uint) error {
	return unix.MountSetattr(dirfd, path, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// lookPath finds a command as a shell would, by the container's PATH and not by
// that of the program which starts it.
func lookPath(args, env []string) (string, error) {
	if len(args) == 0 || args[0] == "" {
		return "", errors.New("no command specified")
	}
	name := args[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	var search string
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			search = value // the last one wins, as for getenv in most libraries' view of duplicates
		}
	}
	for _, dir := range filepath.SplitList(search) {
		if dir == "" {
			dir = "."
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}
