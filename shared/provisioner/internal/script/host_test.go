package script_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
)

// standIns are the commands of a machine, and genuine those of the system that will do.
var (
	standIns = strings.Fields(`apt-get dnf dpkg-query rpm apt-mark gpg curl tar sleep uname systemctl modprobe sysctl swapoff cloud-init update-grub grubby
		setenforce getenforce containerd docker cri-dockerd crio nvidia-ctk nvidia-smi sh ip openssl kubelet kubeadm kubectl kind snap microk8s`)
	genuine = strings.Fields(`bash cat chmod cp cut date dirname env flock grep head id install ls mkdir mktemp mv rm sed awk sha256sum base64 shred sort
		stat tail touch timeout tr wc find mkfifo`)
)

// Systems by what their os-release says.
const (
	ubuntu2204 = "ID=ubuntu\nVERSION_ID=\"22.04\"\n"
	ubuntu2404 = "ID=ubuntu\nVERSION_ID=\"24.04\"\n"
	rocky9     = "ID=\"rocky\"\nVERSION_ID=\"9.6\"\n"
	amazon2023 = "ID=\"amzn\"\nVERSION_ID=\"2023\"\n"
)

const (
	fingerprint = "5111000000000000000000000000000000000009"
	bootID      = "11111111-2222-3333-4444-555555555555"
	caContent   = "certificate of the CA\n"
)

// caHash is what the stand-in of openssl leads to.
func caHash() string {
	sum := sha256.Sum256([]byte(caContent))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// machine is a sandbox: a root directory, and stand-ins for the commands.
type machine struct {
	tb   testing.TB
	dir  string
	root string
}

func newMachine(tb testing.TB, osRelease string) *machine {
	tb.Helper()
	dir := tb.TempDir()
	m := &machine{tb: tb, dir: dir, root: filepath.Join(dir, "root")}
	bin := filepath.Join(dir, "bin")
	for _, name := range []string{bin, filepath.Join(dir, "state/packages"), filepath.Join(dir, "state/units")} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	command, err := filepath.Abs("testdata/host/command")
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range standIns {
		if err := os.Symlink(command, filepath.Join(bin, name)); err != nil {
			tb.Fatal(err)
		}
	}
	for _, name := range genuine {
		path, err := exec.LookPath(name)
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			tb.Fatal(err)
		}
	}
	sum := sha256.Sum256([]byte("stand-in\n"))
	override := "KUBEOPERA_POLL_SECONDS=0\nKUBEOPERA_READY_SECONDS=0\nKUBEOPERA_SETTLE_SECONDS=0\n"
	for _, name := range []string{"KUBERNETES", "DOCKER", "DOCKER_RPM", "CRIO", "CUDA_APT", "CUDA_RPM", "TOOLKIT"} {
		prefix, suffix := name, "_KEY_FINGERPRINT"
		override += prefix + suffix + "=" + fingerprint + "\n"
	}
	for _, name := range []string{"CRI_DOCKERD_SHA256_AMD64", "KIND_SHA256_AMD64", "CALICO_CRDS_SHA256", "CALICO_OPERATOR_SHA256"} {
		override += name + "=" + hex.EncodeToString(sum[:]) + "\n"
	}
	m.write("root/etc/os-release", osRelease)
	m.write("root/etc/hosts", "127.0.0.1 localhost\n")
	m.write("root/etc/fstab", "/dev/sda1 / ext4 defaults 0 1\n/swap none swap sw 0 0\n")
	m.write("root/etc/selinux/config", "SELINUX=enforcing\n")
	m.write("root/etc/kubeopera/bootstrap.override", override)
	m.write("root/proc/sys/kernel/random/boot_id", bootID+"\n")
	m.write("state/kernel", "6.8.0-45-generic\n")
	m.write("fingerprint", fingerprint)
	return m
}

func (m *machine) write(name, content string) {
	m.tb.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		m.tb.Fatal(err)
	}
}

// read is a file's content, empty if it is not there.
func (m *machine) read(name string) string {
	m.tb.Helper()
	content, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.tb.Fatal(err)
	}
	return string(content)
}

func (m *machine) exists(name string) bool {
	_, err := os.Stat(filepath.Join(m.dir, name))
	return err == nil
}

func (m *machine) remove(name string) {
	m.tb.Helper()
	if err := os.RemoveAll(filepath.Join(m.dir, name)); err != nil {
		m.tb.Fatal(err)
	}
}

// changes are the calls that changed something, since the last time.
func (m *machine) changes() string {
	log := m.read("log")
	m.remove("log")
	return log
}

// result is how a script ended.
type result struct {
	code           int
	stdout, stderr string
}

// run executes a step as a file.
func (m *machine) run(s script.Step) result {
	m.tb.Helper()
	m.write("script", string(s.Body))
	return m.exec(m.command("bash", filepath.Join(m.dir, "script")), s.Stdin)
}

func (m *machine) command(name string, arguments ...string) *exec.Cmd {
	return exec.CommandContext(m.tb.Context(), filepath.Join(m.dir, "bin", name), arguments...)
}

func (m *machine) exec(cmd *exec.Cmd, stdin []byte) result {
	m.tb.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	cmd.Env = []string{"PATH=" + filepath.Join(m.dir, "bin"), "KUBEOPERA_ROOT=" + m.root, "SANDBOX=" + m.dir, "HOME=" + m.dir}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		m.tb.Fatal(err)
	}
	return result{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

// must runs a step that has to succeed.
func (m *machine) must(s script.Step, err error) result {
	m.tb.Helper()
	if err != nil {
		m.tb.Fatal(err)
	}
	r := m.run(s)
	if r.code != 0 {
		m.tb.Fatalf("%s: status %d\n%s", s.Name, r.code, r.stderr)
	}
	return r
}

// fails runs a step that has to end with a code, and to say something.
func (m *machine) fails(code int, says string, s script.Step, err error) {
	m.tb.Helper()
	if err != nil {
		m.tb.Fatal(err)
	}
	r := m.run(s)
	if r.code != code || !strings.Contains(r.stderr, says) {
		m.tb.Fatalf("%s: status %d, want %d and %q\n%s", s.Name, r.code, code, says, r.stderr)
	}
}

// unchanged fails if something was changed.
func (m *machine) unchanged() {
	m.tb.Helper()
	if diff := cmp.Diff("", m.changes()); diff != "" {
		m.tb.Errorf("the second run has changed something (-want +got):\n%s", diff)
	}
}

// environment is one with defaults.
func environment(change func(*v1alpha1.EnvironmentSpec)) v1alpha1.Environment {
	env := v1alpha1.Environment{}
	env.Name = "env"
	env.Spec.Kubernetes.Install = true
	env.Spec.Kubernetes.Release = &v1alpha1.K8sReleaseSpec{Version: "v1.36.3"}
	env.Spec.ContainerRuntime.Name = v1alpha1.ContainerRuntimeContainerd
	env.Spec.ContainerRuntime.Install = true
	if change != nil {
		change(&env.Spec)
	}
	env.SetDefaults()
	return env
}

func ExampleQuote() {
	quoted, err := script.Quote("it's $(id)")
	fmt.Println(quoted, err)
	// Output: 'it'\''s $(id)' <nil>
}
