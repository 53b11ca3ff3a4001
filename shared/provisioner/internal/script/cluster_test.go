package script_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
	"github.com/kubeopera/platform/shared/redact"
)

var (
	worker = script.JoinParameters{
		Node: script.Node{Name: "node-1", Address: "10.0.0.5"}, Endpoint: "k8s.example.com:6443", Token: token, CACertHash: caHash(),
	}
	controlPlane = script.JoinParameters{
		Node: script.Node{Name: "node-1", Address: "10.0.0.5"}, Endpoint: "k8s.example.com:6443", Token: token, CACertHash: caHash(), CertificateKey: key,
	}
)

func documents(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for d := range strings.SplitSeq(text, "---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(d), &o); err != nil {
			t.Fatal(err)
		}
		kind, _ := o["kind"].(string)
		out[kind] = o
	}
	return out
}

func TestInitTakesTheClusterThatIsThere(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	m.must(script.Init(environment(nil), first))
	golden.Equal(t, "golden/init.yaml", []byte(m.read("init.yaml")))
	if mode := m.read("init.mode"); mode != "600\n" {
		t.Errorf("the configuration has mode %s", mode)
	}
	if hosts := m.read("root/etc/hosts"); hosts != "127.0.0.1 localhost\n" {
		t.Errorf("the endpoint is still mapped: %s", hosts)
	}
	m.changes()

	// Our mark is lost: the cluster answers and is taken.
	m.remove("root/var/lib/kubeopera/cluster")
	m.must(script.Init(environment(nil), first))
	if log := m.changes(); strings.Contains(log, "kubeadm reset") || strings.Contains(log, "kubeadm init") {
		t.Errorf("the cluster was made anew:\n%s", log)
	}

	// It does not answer: it is left alone.
	m.remove("state/api")
	s, err := script.Init(environment(nil), first)
	m.fails(script.ExitKubernetes, "its data are left alone", s, err)
	m.unchanged()
	if !m.exists("root/var/lib/etcd/member") {
		t.Error("etcd's data are gone")
	}
}

// At an elastic IP, say, nothing on the machine can listen.
func TestAnAddressThatIsTranslatedOnTheWayIsNotTheNodes(t *testing.T) {
	t.Parallel()
	translated := script.Node{Name: "node-1", Address: "203.0.113.7"}
	m := newMachine(t, ubuntu2404)
	m.must(script.Init(environment(nil), script.InitParameters{Node: translated, Endpoint: first.Endpoint}))
	golden.Equal(t, "golden/init.yaml", []byte(m.read("init.yaml")))

	m = newMachine(t, ubuntu2404)
	other := worker
	other.Node = translated
	m.must(script.JoinWorker(environment(nil), other))
	golden.Equal(t, "golden/join-worker.yaml", []byte(m.read("join.yaml")))
}

func TestInitThatWasInterruptedBeginsAnew(t *testing.T) {
	t.Parallel()
	m := newMachine(t, rocky9)
	m.write("root/etc/kubernetes/manifests/etcd.yaml", "")
	m.write("root/etc/kubernetes/admin.conf", "half")
	m.must(script.Init(environment(nil), first))
	log := m.changes()
	if reset, init := strings.Index(log, "kubeadm reset"), strings.Index(log, "kubeadm init"); reset < 0 || init < reset {
		t.Errorf("no reset before init:\n%s", log)
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	for name, render := range map[string]func() (script.Step, error){
		"worker":        func() (script.Step, error) { return script.JoinWorker(environment(nil), worker) },
		"control-plane": func() (script.Step, error) { return script.JoinControlPlane(environment(nil), controlPlane) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, ubuntu2404)
			m.must(render())
			golden.Equal(t, "golden/join-"+name+".yaml", []byte(m.read("join.yaml")))
			golden.Equal(t, "golden/join-"+name+".log", []byte(m.changes()))
			if mode := m.read("join.mode"); mode != "600\n" {
				t.Errorf("the configuration has mode %s", mode)
			}
			m.must(render())
			m.unchanged()

			// A file says nothing if the node does not answer.
			m.remove("state/units/kubelet.active")
			m.must(render())
			log := m.changes()
			if reset, join := strings.Index(log, "kubeadm reset"), strings.Index(log, "kubeadm join"); reset < 0 || join < reset {
				t.Errorf("no reset before join:\n%s", log)
			}
			if left := m.work(); left != "" {
				t.Errorf("the step has left %s", left)
			}
		})
	}
}

func TestJoinThatFailsIsTakenBackAndTriedAgain(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	m.write("join-dies", "")
	m.must(script.JoinWorker(environment(nil), worker))
	if log := m.changes(); strings.Count(log, "kubeadm join") != 2 || strings.Count(log, "kubeadm reset") != 1 {
		t.Errorf("not join, reset, join:\n%s", log)
	}
	m = newMachine(t, ubuntu2404)
	m.write("fail", "kubeadm join *\t1\n")
	s, err := script.JoinWorker(environment(nil), worker)
	m.fails(script.ExitKubernetes, "kubeadm join failed 3 times", s, err)
}

func TestMemberOfAnotherClusterIsLeftAlone(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	m.must(script.JoinWorker(environment(nil), worker))
	m.changes()
	other := worker
	other.CACertHash = "sha256:" + key
	s, err := script.JoinWorker(environment(nil), other)
	m.fails(script.ExitKubernetes, "belongs to another cluster", s, err)
	newer := environment(func(s *v1alpha1.EnvironmentSpec) { s.Kubernetes.Release.Version = "v1.36.4" })
	s, err = script.Prerequisites(newer)
	m.fails(script.ExitKubernetes, "is a member of a cluster with kubelet 1.36.3", s, err)
	m.unchanged()
}

func TestJoinData(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	m.must(script.Init(environment(nil), first))
	const want = `{"token":"` + token + `","caCertificate":"certificate of the CA\n","endpoint":"k8s.example.com:6443"}` + "\n"
	r := m.must(script.JoinData(environment(nil), ""))
	if diff := cmp.Diff(want, r.stdout); diff != "" {
		t.Errorf("join data (-want +got):\n%s", diff)
	}
	if m.exists("upload.yaml") {
		t.Error("certificates were uploaded without need")
	}

	// With secrets, and delivered as one stream.
	s, err := script.JoinData(environment(nil), redact.Secret(key))
	if err != nil {
		t.Fatal(err)
	}
	r = m.exec(m.command("bash", "-s"), append(s.Body, s.Stdin...))
	if r.code != 0 || r.stdout != want {
		t.Errorf("status %d, %s%s", r.code, r.stdout, r.stderr)
	}
	if got := documents(t, m.read("upload.yaml"))["InitConfiguration"]["certificateKey"]; got != key {
		t.Errorf("uploaded under %v", got)
	}
	m.remove("state/api")
	m.fails(script.ExitKubernetes, "the API server does not answer", s, nil)
}

// Tokens and keys are in no argument, no environment, no output and no file that
// remains.
func TestSecretsStay(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	join, err := script.JoinControlPlane(environment(nil), controlPlane)
	r := m.must(join, err)
	data, err := script.JoinData(environment(nil), key)
	r2 := m.must(data, err)
	template, err := script.Custom(v1alpha1.CustomTemplate{Name: "t", Inline: "x", Env: map[string]string{"PASSWORD": token}}, []byte("test -n \"$PASSWORD\"\n"))
	r3 := m.must(template, err)
	for _, s := range []script.Step{join, data, template} {
		for _, secret := range []string{token, key} {
			if strings.Contains(string(s.Body), secret) {
				t.Errorf("%s: a secret is in the text", s.Name)
			}
		}
	}
	places := map[string]string{"calls": m.read("calls"), "stderr": r.stderr + r2.stderr + r3.stderr, "stdout": r.stdout + r3.stdout}
	m.remove("join.yaml") // the stand-in's copies
	m.remove("upload.yaml")
	found := m.exec(m.command("grep", "-r", "-l", "-e", token, "-e", key, m.dir), nil)
	places["files"] = found.stdout
	for place, text := range places {
		if place == "files" && text != "" || strings.Contains(text, token) || strings.Contains(text, key) {
			t.Errorf("a secret is in %s:\n%s", place, text)
		}
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	m.must(script.Init(environment(nil), first))
	m.changes()
	m.must(script.Forget(environment(nil), script.Node{Name: "gone", Address: "10.0.0.9"}))
	log := m.changes()
	for _, want := range []string{"member remove 77a", "delete node gone --ignore-not-found"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if strings.Contains(log, "8e9") {
		t.Errorf("another member was removed:\n%s", log)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	m := newMachine(t, rocky9)
	m.must(script.Reset(environment(nil))) // there is nothing
	m.unchanged()
	m.must(script.Init(environment(nil), first))
	m.changes()
	m.must(script.Reset(environment(nil)))
	golden.Equal(t, "golden/reset.log", []byte(m.changes()))
	for _, path := range []string{"root/etc/kubernetes/admin.conf", "root/etc/kubernetes/pki", "root/var/lib/etcd/member", "root/var/lib/kubeopera/cluster"} {
		if m.exists(path) {
			t.Errorf("%s is still there", path)
		}
	}
	m.must(script.Reset(environment(nil)))
	m.unchanged()
	m.must(script.Init(environment(nil), first))
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	m := newMachine(t, rocky9)
	s, err := script.Kubeconfig(environment(nil))
	m.fails(script.ExitKubernetes, "no admin.conf", s, err)
	m.must(script.Init(environment(nil), first))
	if r := m.must(s, err); r.stdout != "admin\n" {
		t.Errorf("got %q", r.stdout)
	}
}

func TestKind(t *testing.T) {
	t.Parallel()
	env := environment(func(s *v1alpha1.EnvironmentSpec) {
		s.Kubernetes.KubernetesInstaller = v1alpha1.InstallerKind
		s.Kubernetes.KindConfig = "kind.yaml"
		s.ContainerRuntime.Name = v1alpha1.ContainerRuntimeDocker
	})
	for _, release := range []string{ubuntu2404, amazon2023} {
		m := newMachine(t, release)
		node := script.Node{Config: []byte("kind: Cluster\n")}
		s, err := script.Kubernetes(env, node)
		m.fails(script.ExitKubernetes, "Docker does not answer", s, err)
		m.must(script.ContainerRuntime(env))
		m.changes()
		m.must(s, err)
		if log := m.changes(); !strings.Contains(log, "kind create cluster --name env --image kindest/node:v1.36.3") {
			t.Errorf("no cluster:\n%s", log)
		}
		if got := m.read("kind.yaml"); got != "kind: Cluster\n" {
			t.Errorf("configuration %q", got)
		}
		m.must(s, err)
		m.unchanged()
		m.must(script.Kubeconfig(env))
		m.must(script.Reset(env))
	}
}

func TestMicroK8s(t *testing.T) {
	t.Parallel()
	env := environment(func(s *v1alpha1.EnvironmentSpec) { s.Kubernetes.KubernetesInstaller = v1alpha1.InstallerMicroK8s })
	m := newMachine(t, ubuntu2404)
	m.must(script.Kubernetes(env, script.Node{}))
	if log := m.changes(); !strings.Contains(log, "snap install microk8s --classic --channel=1.36/stable") {
		t.Errorf("no snap:\n%s", log)
	}
	env.Spec.Kubernetes.Release.Version = "v1.35.1"
	m.must(script.Kubernetes(env, script.Node{}))
	if log := m.changes(); !strings.Contains(log, "snap refresh microk8s --classic --channel=1.35/stable") {
		t.Errorf("no refresh:\n%s", log)
	}
	m.must(script.Kubeconfig(env))
	m.must(script.Reset(env))
	m = newMachine(t, rocky9)
	s, err := script.Kubernetes(env, script.Node{})
	m.fails(script.ExitInput, "microk8s is supported on Ubuntu only", s, err)
}

func TestObserve(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	fresh := m.must(script.Observe(environment(nil)))
	m.must(script.ContainerRuntime(environment(nil)))
	m.must(script.Init(environment(nil), first))
	m.changes()
	full := m.must(script.Observe(environment(nil)))
	golden.Equal(t, "golden/observe.json", []byte(fresh.stdout+full.stdout))
	m.unchanged()
}
