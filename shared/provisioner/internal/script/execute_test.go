package script_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
)

const (
	token = "abcdef.0123456789abcdef"
	key   = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

var first = script.InitParameters{Node: script.Node{Name: "node-1", Address: "10.0.0.5", ControlPlane: true}, Endpoint: "K8s.example.com"}

// What is done on each system, in a golden file; and nothing when done again.
func TestSystems(t *testing.T) {
	t.Parallel()
	systems := map[string]string{"ubuntu-22.04": ubuntu2204, "ubuntu-24.04": ubuntu2404, "rocky-9": rocky9, "amazon-linux-2023": amazon2023}
	for system, release := range systems {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, release)
			env := environment(func(s *v1alpha1.EnvironmentSpec) {
				s.NVIDIADriver.Install = true
				s.NVIDIAContainerToolkit.Install = true
				s.NVIDIAContainerToolkit.EnableCDI = true
				s.ContainerRuntime.Package = &v1alpha1.RuntimePackageSpec{Version: "2.1.4"}
			})
			init := func() (script.Step, error) { return script.Init(env, first) }
			steps := []func() (script.Step, error){
				func() (script.Step, error) { return script.Driver(env) },
				func() (script.Step, error) { return script.ContainerRuntime(env) },
				func() (script.Step, error) { return script.Toolkit(env) },
				func() (script.Step, error) { return script.Prerequisites(env) },
				init,
			}
			var all strings.Builder
			for _, step := range steps {
				s, err := step()
				m.must(s, err)
				all.WriteString("# " + s.Name + "\n" + m.changes())
			}
			golden.Equal(t, "golden/"+system+".log", []byte(all.String()))
			for _, step := range steps {
				m.must(step())
			}
			m.unchanged()
		})
	}
}

func TestOtherSystemsAreRefused(t *testing.T) {
	t.Parallel()
	for _, release := range []string{"ID=ubuntu\nVERSION_ID=\"20.04\"\n", "ID=debian\nVERSION_ID=12\n", "ID=fedora\nVERSION_ID=42\n", "NAME=x\n"} {
		m := newMachine(t, release)
		s, err := script.ContainerRuntime(environment(nil))
		m.fails(script.ExitInput, "is not supported: Ubuntu 22.04 and 24.04", s, err)
		m.unchanged()
	}
}

func TestRuntimes(t *testing.T) {
	t.Parallel()
	for name, systems := range map[v1alpha1.ContainerRuntimeName][]string{
		v1alpha1.ContainerRuntimeDocker: {ubuntu2404, rocky9, amazon2023},
		v1alpha1.ContainerRuntimeCrio:   {ubuntu2404, rocky9, amazon2023},
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			var all strings.Builder
			for _, release := range systems {
				m := newMachine(t, release)
				env := environment(func(s *v1alpha1.EnvironmentSpec) { s.ContainerRuntime.Name = name })
				s, err := script.ContainerRuntime(env)
				m.must(s, err)
				all.WriteString("# " + strings.ReplaceAll(release, "\n", " ") + "\n" + m.changes())
				m.must(s, err)
				m.unchanged()
			}
			golden.Equal(t, "golden/"+string(name)+".log", []byte(all.String()))
		})
	}
}

func runtimeVersion(version string) v1alpha1.Environment {
	return environment(func(s *v1alpha1.EnvironmentSpec) {
		s.ContainerRuntime.Package = &v1alpha1.RuntimePackageSpec{Version: version}
	})
}

func TestAnotherVersionIsInstalled(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	m.must(script.ContainerRuntime(runtimeVersion("2.1.4")))
	m.changes()
	m.must(script.ContainerRuntime(runtimeVersion("5:2.0.0-1~ubuntu.24.04~noble")))
	log := m.changes()
	for _, want := range []string{"install --allow-downgrades --allow-change-held-packages containerd.io=5:2.0.0-1~ubuntu.24.04~noble\n", "systemctl restart containerd\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
}

// A version that the repository lacks is an error, and nothing else is installed.
func TestFailures(t *testing.T) {
	t.Parallel()
	driver := environment(func(s *v1alpha1.EnvironmentSpec) { s.NVIDIADriver.Install = true })
	toolkit := environment(func(s *v1alpha1.EnvironmentSpec) { s.NVIDIAContainerToolkit.Install = true })
	tests := []struct {
		name, fail string
		prepare    func(*machine)
		step       func() (script.Step, error)
		code       int
		says       string
	}{
		{
			name: "runtime of no such version", fail: "apt-get * install *containerd.io*\t100",
			step: func() (script.Step, error) { return script.ContainerRuntime(runtimeVersion("2.9.9")) },
			code: script.ExitRuntime, says: "cannot install containerd.io=2.9.9-*; no other version is taken instead",
		},
		{
			name: "no package lists", fail: "apt-get * update\t100",
			step: func() (script.Step, error) { return script.ContainerRuntime(environment(nil)) },
			code: script.ExitDependency, says: "the package lists cannot be updated",
		},
		{
			name: "no download", fail: "curl *\t22",
			step: func() (script.Step, error) { return script.ContainerRuntime(environment(nil)) },
			code: script.ExitDependency, says: "cannot download https://download.docker.com/linux/ubuntu/gpg",
		},
		{
			name: "repository key of somebody else", prepare: func(m *machine) { m.write("fingerprint", strings.Repeat("0", 40)) },
			step: func() (script.Step, error) { return script.ContainerRuntime(environment(nil)) },
			code: script.ExitVerification, says: "has fingerprint 0000",
		},
		{
			name: "runtime that does not start", fail: "systemctl restart containerd\t1",
			step: func() (script.Step, error) { return script.ContainerRuntime(environment(nil)) },
			code: script.ExitRuntime, says: ": command failed with status 1",
		},
		{
			name: "toolkit", fail: "nvidia-ctk runtime *\t1",
			step: func() (script.Step, error) { return script.Toolkit(toolkit) },
			code: script.ExitToolkit, says: ": command failed with status 1",
		},
		{
			name: "driver without a device", fail: "nvidia-smi *\t9", prepare: gpu,
			step: func() (script.Step, error) { return script.Driver(driver) },
			code: script.ExitDriver, says: "nvidia-smi finds no device",
		},
		{
			name: "driver of another branch", prepare: func(m *machine) { gpu(m); m.write("state/driver", "575.57.08\n") },
			step: func() (script.Step, error) { return script.Driver(driver) },
			code: script.ExitVerification, says: "driver 575.57.08 is loaded, want branch 580",
		},
		{
			name: "kubeadm init", fail: "kubeadm init --config *\t1",
			step: func() (script.Step, error) { return script.Init(environment(nil), first) },
			code: script.ExitKubernetes, says: ": command failed with status 1",
		},
		{
			name: "manifest of somebody else",
			prepare: func(m *machine) {
				m.write("root/etc/kubeopera/bootstrap.override", m.read("root/etc/kubeopera/bootstrap.override")+"CALICO_CRDS_SHA256=00\n")
			},
			step: func() (script.Step, error) { return script.Init(environment(nil), first) },
			code: script.ExitVerification, says: "operator-crds.yaml does not have the SHA-256 sum 00",
		},
		{
			name: "no secrets",
			step: func() (script.Step, error) {
				s, err := script.JoinWorker(environment(nil), worker)
				s.Stdin = nil
				return s, err
			},
			code: script.ExitInput, says: "standard input has no TOKEN",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, ubuntu2404)
			if test.prepare != nil {
				test.prepare(m)
			}
			m.write("fail", test.fail+"\n")
			s, err := test.step()
			m.fails(test.code, test.says, s, err)
			if left := m.work(); left != "" {
				t.Errorf("the step has left %s", left)
			}
		})
	}
}

// The line that is told is that of the command, not of what runs commands.
func TestLineOfAFailure(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	m.write("fail", "kubeadm config images pull *\t3\n")
	s, err := script.Init(environment(nil), first)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`kubeopera: line (\d+): command failed with status 1\n`).FindStringSubmatch(m.run(s).stderr)
	if found == nil {
		t.Fatal("no line is told")
	}
	number, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	if line := strings.Split(string(s.Body), "\n")[number-1]; !strings.Contains(line, "kubeadm config images pull") {
		t.Errorf("line %d is %q", number, line)
	}
}

func gpu(m *machine) {
	m.write("root/sys/bus/pci/devices/0000:00:1e.0/vendor", "0x10de\n")
	m.write("root/sys/bus/pci/devices/0000:00:1e.0/class", "0x030200\n")
	m.write("state/driver", "580.95.05\n")
}

func TestDriver(t *testing.T) {
	t.Parallel()
	runfile := environment(func(s *v1alpha1.EnvironmentSpec) {
		s.NVIDIADriver.Install = true
		s.NVIDIADriver.Source = v1alpha1.DriverSourceRunfile
		s.NVIDIADriver.Runfile = &v1alpha1.DriverRunfileSpec{URL: "https://example.com/driver.run", Checksum: "sha256:" + standInSum}
	})
	pinned := environment(func(s *v1alpha1.EnvironmentSpec) {
		s.NVIDIADriver.Install = true
		s.NVIDIADriver.Package = &v1alpha1.DriverPackageSpec{Version: "580.95.05"}
	})
	var all strings.Builder
	for _, release := range []string{ubuntu2404, rocky9, amazon2023} {
		for name, env := range map[string]v1alpha1.Environment{"runfile": runfile, "pinned": pinned} {
			if name == "pinned" && release != ubuntu2404 {
				continue // the stand-in of nvidia-smi knows one package
			}
			m := newMachine(t, release)
			gpu(m)
			m.must(script.Driver(env))
			log := m.changes()
			if name == "runfile" {
				all.WriteString("# " + strings.ReplaceAll(release, "\n", " ") + "\n" + log)
			} else if !strings.Contains(log, "nvidia-driver-pinning-580.95.05") {
				t.Errorf("no pin in\n%s", log)
			}
			m.must(script.Driver(env))
			m.unchanged()
		}
	}
	golden.Equal(t, "golden/runfile.log", []byte(all.String()))
}

const standInSum = "f5f8eeae987b3e68b4592b2c02ba1dd277eba1fbfa716c3c829c7dbb513a2773"

func TestKernel(t *testing.T) {
	t.Parallel()
	const wanted, other, nextBoot = "6.8.0-50-generic", "6.8.0-45-generic", "99999999-2222-3333-4444-555555555555"
	env := environment(func(s *v1alpha1.EnvironmentSpec) { s.Kernel.Version = wanted })
	for _, release := range []string{ubuntu2404, rocky9} {
		m := newMachine(t, release)
		m.must(script.Kernel(env))
		if got := m.read("root" + script.RebootMarker); got != bootID+"\n" {
			t.Fatalf("the marker holds %q", got)
		}
		m.must(script.Kernel(env)) // not rebooted yet: the wish stands
		if !m.exists("root" + script.RebootMarker) {
			t.Error("the wish for a reboot is forgotten")
		}

		m.write("root/proc/sys/kernel/random/boot_id", nextBoot+"\n")
		s, err := script.Kernel(env)
		m.fails(script.ExitVerification, "has rebooted with kernel "+other+", want "+wanted, s, err)

		m.must(s, err)
		m.write("root/proc/sys/kernel/random/boot_id", bootID+"\n")
		m.write("state/kernel", wanted+"\n")
		m.changes()
		m.must(s, err)
		m.unchanged()
		if m.exists("root" + script.RebootMarker) {
			t.Error("a reboot is wished for without need")
		}
	}
}

// work is what steps have left of their private directories.
func (m *machine) work() string {
	m.tb.Helper()
	r := m.exec(m.command("ls", m.root+"/run/kubeopera"), nil)
	return strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(r.stdout, "lock", ""), "reboot-required", ""))
}
