package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

func TestSetDefaults(t *testing.T) {
	t.Parallel()
	kubeadm := v1alpha1.Kubernetes{
		Install: true, Source: "release", KubernetesInstaller: "kubeadm", CalicoVersion: v1alpha1.DefaultCalicoVersion,
		Release: &v1alpha1.K8sReleaseSpec{Version: v1alpha1.DefaultKubernetesVersion},
	}
	containerd := v1alpha1.ContainerRuntime{Install: true, Name: "containerd", Source: "package", Package: &v1alpha1.RuntimePackageSpec{}}
	tests := []struct{ name, spec, want string }{
		{"an empty spec stays empty", `{}`, `{}`},
		{
			"Kubernetes is kubeadm's newest with containerd", `kubernetes: {install: true}`,
			`{kubernetes: {install: true, source: release, installer: kubeadm, release: {version: v1.36.3}, calicoVersion: v3.32.1},
			containerRuntime: {install: true, name: containerd, source: package, package: {}}}`,
		},
		{
			"a missing v is added, and the deprecated version moves", `kubernetes: {install: true, version: 1.35.5}`,
			`{kubernetes: {install: true, source: release, installer: kubeadm, version: v1.35.5, release: {version: v1.35.5}, calicoVersion: v3.32.1},
			containerRuntime: {install: true, name: containerd, source: package, package: {}}}`,
		},
		{
			"release.version is kept", `kubernetes: {install: true, release: {version: 1.35.5}}`,
			`{kubernetes: {install: true, source: release, installer: kubeadm, release: {version: v1.35.5}, calicoVersion: v3.32.1},
			containerRuntime: {install: true, name: containerd, source: package, package: {}}}`,
		},
		{
			"kind has docker and the version of its own image", `kubernetes: {install: true, installer: kind}`,
			`{kubernetes: {install: true, source: release, installer: kind, release: {version: v1.34.0}},
			containerRuntime: {install: true, name: docker, source: package, package: {}}}`,
		},
		{
			"microk8s needs no runtime", `kubernetes: {install: true, installer: microk8s}`,
			`{kubernetes: {install: true, source: release, installer: microk8s, release: {version: v1.36.3}}}`,
		},
		{
			"a named runtime that is not installed is there already", `{kubernetes: {install: true}, containerRuntime: {name: crio}}`,
			`{kubernetes: {install: true, source: release, installer: kubeadm, release: {version: v1.36.3}, calicoVersion: v3.32.1},
			containerRuntime: {name: crio}}`,
		},
		{
			"driver and toolkit", `{nvidiaDriver: {install: true}, nvidiaContainerToolkit: {install: true, version: 1.18.0-1}}`,
			`{nvidiaDriver: {install: true, source: package, package: {branch: 580}},
			nvidiaContainerToolkit: {install: true, source: package, version: 1.18.0-1, package: {channel: stable, version: 1.18.0-1}},
			containerRuntime: {install: true, name: containerd, source: package, package: {}}}`,
		},
		{
			"a driver's version needs no branch", `nvidiaDriver: {install: true, version: 570.1.2}`,
			`nvidiaDriver: {install: true, source: package, version: 570.1.2, package: {version: 570.1.2}}`,
		},
		{
			"what is not installed has no defaults", `{nvidiaDriver: {version: 570.1.2}, containerRuntime: {name: docker, version: 1.2}, kubernetes: {version: 1.35.5}}`,
			`{nvidiaDriver: {version: 570.1.2}, containerRuntime: {name: docker, version: 1.2}, kubernetes: {version: 1.35.5}}`,
		},
		{
			"templates", `customTemplates: [{name: t, url: "https://example.com", checksum: "sha256:ABCDEF", timeout: 0}, {name: u, phase: pre-install, timeout: 5}]`,
			`customTemplates: [{name: t, phase: post-install, url: "https://example.com", checksum: "sha256:abcdef", timeout: 600}, {name: u, phase: pre-install, timeout: 5}]`,
		},
		{"the user of AWS", `provider: aws`, `{provider: aws, auth: {username: ubuntu}}`},
		{"the user of Amazon Linux", `{provider: aws, instance: {os: amazon-linux-2023}}`, `{provider: aws, auth: {username: ec2-user}, instance: {os: amazon-linux-2023}}`},
		{"the user of Rocky Linux", `instance: {os: rocky-9}`, `{auth: {username: rocky}, instance: {os: rocky-9}}`},
		{"a user that is named", `{auth: {username: me}, instance: {os: rocky-9}}`, `{auth: {username: me}, instance: {os: rocky-9}}`},
		{
			"a cluster has Kubernetes", `cluster: {controlPlane: {os: ubuntu-24.04}, highAvailability: {enabled: true}}`,
			`{auth: {username: ubuntu}, cluster: {controlPlane: {count: 1, os: ubuntu-24.04}, highAvailability: {enabled: true, etcdTopology: stacked}},
			kubernetes: {install: true, source: release, installer: kubeadm, release: {version: v1.36.3}, calicoVersion: v3.32.1},
			containerRuntime: {install: true, name: containerd, source: package, package: {}}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, want := decodeSpec(t, tt.spec), decodeSpec(t, tt.want)
			got.SetDefaults()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}

	t.Run("of an environment made by a program", func(t *testing.T) {
		t.Parallel()
		env := &v1alpha1.Environment{Spec: v1alpha1.EnvironmentSpec{Kubernetes: v1alpha1.Kubernetes{Install: true}}}
		env.SetDefaults()
		if err := env.Validate(); err != nil {
			t.Error(err)
		}
		want := v1alpha1.EnvironmentSpec{Kubernetes: kubeadm, ContainerRuntime: containerd}
		if diff := cmp.Diff(want, env.Spec); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func decodeSpec(t *testing.T, spec string) *v1alpha1.Environment {
	t.Helper()
	return decode(t, []byte(header+"spec:\n  "+spec+"\n"))
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	env := decodeSpec(t, `
  auth: {sshConfig: {knownHostsPolicy: "off"}}
  instance: {hostUrl: 192.0.2.1}
  cluster: {controlPlane: {count: 3}, highAvailability: {enabled: true, loadBalancerType: nlb}}
  loadBalancer: {}
  nvidiaDriver: {branch: 580, version: 580.1, source: runfile, runfile: {url: https://example.com}}
  containerRuntime: {version: 1.2}
  nvidiaContainerToolkit: {version: 1.2}
  kubernetes: {version: 1.35.5, kubeletReleaseVersion: v0.18.0}
  customTemplates: [{name: t, url: https://example.com}]`)
	var got []string
	for _, w := range env.Warnings() {
		got = append(got, w.Field)
	}
	want := []string{
		"spec.nvidiaDriver.branch", "spec.nvidiaDriver.version", "spec.containerRuntime.version",
		"spec.nvidiaContainerToolkit.version", "spec.kubernetes.version", "spec.kubernetes.kubeletReleaseVersion",
		"spec.loadBalancer", "spec.cluster.highAvailability.loadBalancerType", "spec.instance.hostUrl",
		"spec.auth.sshConfig.knownHostsPolicy", "spec.nvidiaDriver.runfile.checksum", "spec.customTemplates[0].checksum",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	kind := decodeSpec(t, `kubernetes: {install: true, installer: kind, arch: amd64, calicoVersion: v3.32.1, cniPluginsVersion: v1.9.1, crictlVersion: v1.35.0}`)
	if w := kind.Warnings(); len(w) != 4 {
		t.Errorf("what has no effect for kind: %v", w)
	}
	if w := new(v1alpha1.Environment).Warnings(); len(w) > 0 {
		t.Errorf("an empty environment has warnings: %v", w)
	}
}
