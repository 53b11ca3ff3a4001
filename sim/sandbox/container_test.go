package sandbox_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kubeopera/platform/sim/sandbox"
)

// run runs a container in a sandbox as a user. Unset fields get the values with
// which a shell works.
func run(t *testing.T, u user, c sandbox.Container) outcome {
	t.Helper()
	c.Root = publicDir(t)
	for _, path := range []string{"/bin", "/lib", "/lib64", "/usr"} {
		if _, err := os.Stat(path); err == nil {
			c.Mounts = append(c.Mounts, sandbox.Mount{Source: path, Target: path, ReadOnly: true})
		}
	}
	if c.Env == nil {
		c.Env = []string{"PATH=/usr/bin:/bin"}
	}
	spec, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	command := program(t, u, "container")
	command.Stdin = bytes.NewReader(spec)
	output, err := command.Output()
	if err != nil {
		t.Fatalf("container program: %v\n%s", err, output)
	}
	var got outcome
	if err := json.Unmarshal(output, &got); err != nil {
		t.Fatalf("read outcome: %v\n%s", err, output)
	}
	if got.Error != "" {
		t.Fatalf("container program: %s", got.Error)
	}
	return got
}

func shell(script string) []string { return []string{"sh", "-c", script} }

func TestContainerSeesOnlyItsOwnFiles(t *testing.T) {
	for _, u := range users() {
		t.Run(u.name, func(t *testing.T) {
			got := run(t, u, sandbox.Container{
				Hostname: "pod-1",
				Args:     shell("hostname; echo $$; ls /; ls /root /home 2>/dev/null; echo x >/file && cat /file; echo null >/dev/null && head -c 3 /dev/zero | wc -c"),
			})
			want := "pod-1\n1\nbin\ndev\netc\nlib\nlib64\nproc\nsys\nusr\nx\n3\n"
			if got.Output != want {
				t.Errorf("the container saw %q, want %q", got.Output, want)
			}
		})
	}
}

func TestContainerMounts(t *testing.T) {
	for _, u := range users() {
		t.Run(u.name, func(t *testing.T) {
			workspace, config := publicDir(t), publicDir(t)
			if err := os.WriteFile(filepath.Join(config, "main.tf"), []byte("module\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			got := run(t, u, sandbox.Container{
				ReadOnlyRoot: true,
				Mounts: []sandbox.Mount{
					{Source: workspace, Target: "/workspace"},
					{Source: config, Target: "/workspace/modules/environments/one", ReadOnly: true},
					{Source: filepath.Join(config, "main.tf"), Target: "/etc/one-file", ReadOnly: true},
				},
				Dir: "/workspace",
				Args: shell(`cat modules/environments/one/main.tf /etc/one-file
echo kept >result
echo no 2>/dev/null >modules/environments/one/new || echo nested mount is read-only
echo no 2>/dev/null >/new || echo root is read-only
echo no 2>/dev/null >/usr/new || echo image is read-only`),
			})
			want := "module\nmodule\nnested mount is read-only\nroot is read-only\nimage is read-only\n"
			if got.Output != want {
				t.Errorf("the container said %q, want %q", got.Output, want)
			}
			if content, err := os.ReadFile(filepath.Join(workspace, "result")); string(content) != "kept\n" {
				t.Errorf("the volume holds %q (%v), want what the container wrote", content, err)
			}
		})
	}
}

func TestMountPointBehindALinkStaysInside(t *testing.T) {
	volume, secret := publicDir(t), publicDir(t)
	outside := filepath.Join(publicDir(t), "outside")
	if err := os.Symlink(outside, filepath.Join(volume, "link")); err != nil {
		t.Fatal(err)
	}
	got := run(t, users()[0], sandbox.Container{
		Mounts: []sandbox.Mount{{Source: volume, Target: "/volume"}, {Source: secret, Target: "/volume/link/secret"}},
		Args:   shell("true"),
	})
	if _, err := os.Lstat(outside); err == nil {
		t.Errorf("a mount point was made outside of the container, at %s (%+v)", outside, got)
	}
}

func TestContainerExit(t *testing.T) {
	tests := []struct {
		name   string
		script string
		want   sandbox.Exit
	}{
		{name: "success", script: "exit 0"},
		{name: "exit code", script: "exit 66", want: sandbox.Exit{Code: 66}},
		{name: "killed", script: "echo signal me with 9; sleep 100", want: sandbox.Exit{Code: 137, Signal: syscall.SIGKILL}},
		{name: "handled signal", script: "trap 'exit 5' TERM; echo signal me with 15; while :; do sleep 0.01; done", want: sandbox.Exit{Code: 5}},
		{name: "unhandled signal is ignored by PID 1", script: "echo signal me with 15; sleep 0.2; exit 7", want: sandbox.Exit{Code: 7}},
		{name: "processes left behind do not hold it up", script: "sleep 100 & exit 3", want: sandbox.Exit{Code: 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := run(t, users()[0], sandbox.Container{Args: shell(tt.script)})
			if got.Exit != tt.want || got.StartError != "" {
				t.Errorf("container ended with %+v %s, want %+v", got.Exit, got.StartError, tt.want)
			}
		})
	}
}

func TestContainerThatCannotStart(t *testing.T) {
	tests := []struct {
		name      string
		container sandbox.Container
		want      string
	}{
		{name: "unknown command", container: sandbox.Container{Args: []string{"no-such-command"}}, want: `exec: "no-such-command": executable file not found in $PATH`},
		{name: "missing path", container: sandbox.Container{Args: []string{"/no/such"}}, want: `exec: "/no/such": no such file or directory`},
		{name: "missing source", container: sandbox.Container{
			Args: shell("true"), Mounts: []sandbox.Mount{{Source: "/no/such", Target: "/volume"}},
		}, want: "mount /volume: stat /no/such: no such file or directory"},
		{name: "no command", container: sandbox.Container{}, want: "no command specified"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := run(t, users()[0], tt.container); got.StartError != tt.want {
				t.Errorf("start error %q, want %q", got.StartError, tt.want)
			}
		})
	}
}

func TestContainerEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("LEAKED", "yes")
	got := run(t, users()[0], sandbox.Container{Args: []string{"env"}, Env: []string{"PATH=/usr/bin:/bin", "TOKEN=secret"}})
	if want := "PATH=/usr/bin:/bin\nTOKEN=secret\n"; got.Output != want {
		t.Errorf("environment is %q, want %q", got.Output, want)
	}
}

func TestContainerOutsideOfASandbox(t *testing.T) {
	_, err := sandbox.Container{Args: shell("true")}.Start(os.Stdout, os.Stderr)
	if err == nil || !strings.Contains(err.Error(), "not in a sandbox") {
		t.Errorf("start gave %v, want a refusal", err)
	}
}
