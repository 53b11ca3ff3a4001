package provisioner

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote/sshtest"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
	"github.com/kubeopera/platform/shared/redact"
)

// onFleet is a provisioner of the fleet's only machine.
func onFleet(f *fleet, log *bytes.Buffer) *Provisioner {
	l := &logger.FunLogger{Out: log}
	p := &Provisioner{HostUrl: "192.0.2.10", log: l, masks: redact.New(), transport: NewDirectTransport("192.0.2.10")}
	p.machine = &machine{name: "c1", host: f.machines["c1"], log: l, masks: p.masks}
	return p
}

func TestRun(t *testing.T) {
	t.Parallel()
	env := singleNode(func(s *v1alpha1.EnvironmentSpec) {
		s.NVIDIADriver.Install, s.NVIDIAContainerToolkit.Install, s.Kubernetes.Install = true, true, true
		s.Kubernetes.RemoteAccess, s.Kubernetes.KubeConfig = true, filepath.Join(t.TempDir(), "kubeconfig")
	})
	before := env.DeepCopy()
	f := newFleet(t, testNodes(1, 0))
	f.observed = `{"driver":"","containerd":"2.2.0","toolkit":"1.18.0","kubelet":"1.36.3","gpu":false}`
	f.say = "hello"
	var log bytes.Buffer
	p := onFleet(f, &log)
	got, err := p.RunContext(t.Context(), *env)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.ComponentsStatus{ // no GPU, so no driver
		Runtime:    &v1alpha1.ComponentProvenance{Source: "package", Version: "2.2.0"},
		Toolkit:    &v1alpha1.ComponentProvenance{Source: "package", Version: "1.18.0", Branch: "stable"},
		Kubernetes: &v1alpha1.ComponentProvenance{Source: "release", Version: "1.36.3"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c1 driver", "c1 container runtime", "c1 container toolkit", "c1 kubernetes"}, f.events); diff != "" {
		t.Errorf("scripts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, env); diff != "" {
		t.Errorf("the caller's environment changed (-before +after):\n%s", diff)
	}
	if !strings.Contains(log.String(), "[c1] container runtime: hello\n") {
		t.Errorf("log:\n%s", log.String())
	}
	config, err := os.ReadFile(env.Spec.Kubernetes.KubeConfig)
	if err != nil || !strings.Contains(string(config), "server: https://192.0.2.10:6443") {
		t.Errorf("kubeconfig: %v\n%s", err, config)
	}
	if info, err := os.Stat(env.Spec.Kubernetes.KubeConfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig has mode %v, %v", info.Mode(), err)
	}
	if secret, err := p.Kubeconfig(t.Context(), *env); err != nil || secret.Reveal() != string(config) {
		t.Errorf("Kubeconfig: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := p.RunContext(t.Context(), *env); err == nil {
		t.Error("Run after Close: no error")
	}
}

func TestRunThatFails(t *testing.T) {
	t.Parallel()
	env := singleNode(func(s *v1alpha1.EnvironmentSpec) { s.Kubernetes.Install = true })
	f := newFleet(t, testNodes(1, 0))
	f.observed = `{"containerd":"2.2.0"}`
	f.fault = func(_, step string, n int) error {
		switch {
		case step == "container runtime" && n == 1:
			return &remote.InterruptedError{Script: step, Reason: remote.Rebooted}
		case step == "kubernetes":
			return &remote.ExitError{Script: step, Code: 13, Class: remote.ClassKubernetes, Line: 7, Tail: []string{"a", "b"}, Hint: "look"}
		}
		return nil
	}
	got, err := onFleet(f, new(bytes.Buffer)).RunContext(t.Context(), *env)
	var failed *StepError
	if !errors.As(err, &failed) {
		t.Fatalf("error %v, want a StepError", err)
	}
	if diff := cmp.Diff(&StepError{Step: "kubernetes", Code: 13, Class: "kubernetes", Line: 7, Tail: []string{"a", "b"}, Hint: "look"}, failed); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if want := "script kubernetes ended with code 13 (kubernetes) at line 7: b; look"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	// What was installed before is told.
	if diff := cmp.Diff(&v1alpha1.ComponentsStatus{Runtime: &v1alpha1.ComponentProvenance{Source: "package", Version: "2.2.0"}}, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if n := f.began("c1", "container runtime"); n != 2 {
		t.Errorf("the interrupted script ran %d times, want 2", n)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testNodes(1, 0))
	p := onFleet(f, new(bytes.Buffer))
	for name, env := range map[string]*v1alpha1.Environment{
		"a cluster":           testEnvironment(1, 0),
		"a wrong environment": singleNode(func(s *v1alpha1.EnvironmentSpec) { s.Kernel.Version = "$(id)" }),
		"a missing template": singleNode(func(s *v1alpha1.EnvironmentSpec) {
			s.Kubernetes.Install = true
			s.CustomTemplates = []v1alpha1.CustomTemplate{{Name: "t", File: "does/not/exist"}}
		}),
	} {
		if _, err := p.RunContext(t.Context(), *env); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if len(f.events) != 0 {
		t.Errorf("scripts ran all the same: %v", f.events)
	}
}

// TestQueriesOverSSH: what the fleet does not show, that commands mean the same to
// a shell behind SSH.
func TestQueriesOverSSH(t *testing.T) {
	t.Parallel()
	server := sshtest.Start(t, sshtest.Options{})
	p, err := NewContext(t.Context(), nil, server.KeyFile, "ubuntu", server.Addr, WithHostKeys(string(ssh.MarshalAuthorizedKey(server.HostKey))))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m := p.machine
	out, err := m.query(t.Context(), script.Step{
		Name: "echo", Body: []byte(Shebang + "{ set +x; } 2>/dev/null\nmain() {\n  IFS= read -r line\n  printf '<%s>' \"$line\"\n  exit 0\n}\nmain\n"), Stdin: []byte("it's $HOME\n"),
	})
	if err != nil || string(out) != "<it's $HOME>" {
		t.Errorf("query: %q, %v", out, err)
	}
	for condition, want := range map[string]bool{"-e " + server.KeyFile: true, "! -e " + server.KeyFile: false, "-e " + server.KeyFile + ".none": false} {
		if got, err := m.holds(t.Context(), condition); err != nil || got != want {
			t.Errorf("holds(%q) = %t, %v; want %t", condition, got, err, want)
		}
	}
	// A kubectl that answers only where the file says, and shows what it was given.
	kubectl := "kubectl() { case $* in *127.0.0.1*) echo refused >&2; return 1;; esac; printf '%s|' \"$@\"; }\n" + patchCommand("n1")
	out, err = m.output(t.Context(), "patch", kubectl, []byte(`{"a":"$(id) 'b'"}`))
	if want := `--kubeconfig=/etc/kubernetes/admin.conf|--request-timeout=30s|patch|node|n1|--type=merge|--patch|{"a":"$(id) 'b'"}|`; err != nil || string(out) != want {
		t.Errorf("patch: %q, %v; want %q", out, err, want)
	}
	_, err = m.output(t.Context(), "fail", "echo why >&2; exit 4", nil)
	if failed, ok := errors.AsType[*StepError](err); !ok || failed.Code != 4 || failed.Class != "dependency" || failed.Tail[0] != "why" {
		t.Errorf("error %#v", err)
	}
}
