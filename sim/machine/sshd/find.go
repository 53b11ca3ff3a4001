package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Dir is where a machine sees the server's folder.
const Dir = "/.machine/openssh"

// Server is an sshd of this machine, and what it needs.
type Server struct {
	Folder  string // that it is in; shown to machines at Dir
	program string
	library bool // the folder has a folder lib with libraries that this machine lacks
	helper  bool // the folder has sshd-session, which the program looks for elsewhere
	major   int
	minor   int
}

// Find asks tools/openssh of the checkout root for sshd. Unless cached, that may
// download it; progress says so.
func Find(ctx context.Context, root string, cached bool, progress io.Writer) (Server, error) {
	command := exec.CommandContext(ctx, filepath.Join(root, "tools", "openssh"))
	if cached {
		command.Args = append(command.Args, "--cached")
	}
	command.Stderr = progress
	out, err := command.Output()
	if err != nil {
		return Server{}, fmt.Errorf("OpenSSH server (tools/openssh): %w", err)
	}
	return Open(ctx, strings.TrimSpace(string(out)))
}

var versionPattern = regexp.MustCompile(`OpenSSH_(\d+)\.(\d+)`)

// Open looks at the sshd at a path.
func Open(ctx context.Context, path string) (Server, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Server{}, fmt.Errorf("OpenSSH server: %w", err)
	}
	s := Server{Folder: filepath.Dir(path), program: filepath.Base(path)}
	for name, found := range map[string]*bool{"lib": &s.library, "sshd-session": &s.helper} {
		_, err := os.Stat(filepath.Join(s.Folder, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Server{}, fmt.Errorf("OpenSSH server: %w", err)
		}
		*found = err == nil
	}
	// Before 9.3 there is no -V, and the complaint about it has the version.
	command := exec.CommandContext(ctx, path, "-V")
	command.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(s.Folder, "lib"))
	out, err := command.CombinedOutput()
	version := versionPattern.FindSubmatch(out)
	if version == nil {
		return Server{}, fmt.Errorf("OpenSSH server: %s does not tell its version: %q, %w", path, out, err)
	}
	if s.major, err = strconv.Atoi(string(version[1])); err != nil {
		return Server{}, err
	}
	s.minor, err = strconv.Atoi(string(version[2]))
	return s, err
}

// atLeast compares the version.
func (s Server) atLeast(major, minor int) bool {
	return s.major > major || s.major == major && s.minor >= minor
}
