package v1alpha1_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

// free are the fields whose text may be anything but NUL, with the reason.
var free = map[string]string{
	"metadata.annotations":            "for people and other programs; never leaves the file",
	"spec.customTemplates[0].inline":  "a script of the user's own, run as it is",
	"spec.customTemplates[0].env":     "data of the user's own script, passed on quoted",
	"status.conditions[0].message":    "for people; never leaves the file",
	"status.cluster.nodes[0].message": "for people; never leaves the file",
}

// local are paths on the caller's machine, which could be absolute as well: '..' in
// them does no harm.
var local = []string{
	"spec.auth.publicKey", "spec.auth.privateKey", "spec.auth.sshConfig.agentSocket", "spec.auth.sshConfig.bastion.privateKey",
	"spec.kubernetes.kubeConfig", "spec.kubernetes.kubeAdmConfig", "spec.kubernetes.kindConfig",
}

func injections(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/injections.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	return append(lines, "a\nb", "a\n", "\na", "a\r", "a\x00b", "a\x1b[2J", "a\xffb", "a\u202eb", strings.Repeat("a", 1<<16))
}

// with is an environment with text at a leaf, and with what lets that field count.
func with(l leaf, text string) *v1alpha1.Environment {
	env := new(v1alpha1.Environment)
	if strings.HasPrefix(l.path, "spec.customTemplates[0]") {
		t := v1alpha1.CustomTemplate{Name: "t", Inline: "true"}
		if strings.HasSuffix(l.path, ".file") || strings.HasSuffix(l.path, ".url") {
			t.Inline = ""
		}
		env.Spec.CustomTemplates = []v1alpha1.CustomTemplate{t}
	}
	switch {
	case l.path == "spec.provider":
		env.Spec.HostUrl = "192.0.2.1"
	case l.path == "spec.auth.sshConfig.agentSocket":
		env.Spec.SSHConfig = &v1alpha1.SSHConfig{UseAgent: true}
	case l.path == "spec.kubernetes.kindConfig":
		env.Spec.Kubernetes.KubernetesInstaller = v1alpha1.InstallerKind
	case l.path == "spec.nvidiaDriver.source" && text == "runfile":
		env.Spec.NVIDIADriver.Runfile = &v1alpha1.DriverRunfileSpec{URL: "https://example.com/x.run"}
	case strings.HasPrefix(l.path, "spec.nvidiaDriver.runfile"):
		env.Spec.NVIDIADriver.Source = v1alpha1.DriverSourceRunfile
	}
	l.set(env, text)
	return env
}

// refuses says whether Validate complains about the field at path, or about the part
// of an environment that never has a right value.
func refuses(tb testing.TB, env *v1alpha1.Environment, path string) bool {
	tb.Helper()
	err := env.Validate()
	if err == nil {
		return false
	}
	if p := neverRight(path); p != "" {
		path = p
	}
	var errs v1alpha1.FieldErrors
	if !errors.As(err, &errs) {
		tb.Fatal(err)
	}
	return slices.ContainsFunc(errs, func(e v1alpha1.FieldError) bool { return e.Field == path })
}

func TestInjectionsAreRefusedInEveryString(t *testing.T) {
	t.Parallel()
	all := leaves()
	if len(all) < 120 {
		t.Fatalf("only %d strings found", len(all))
	}
	for _, l := range all {
		for _, text := range injections(t) {
			env := with(l, text)
			// With defaults, too: they must not make it look better.
			refused := refuses(t, env, l.path)
			env.SetDefaults()
			if again := refuses(t, env, l.path); again != refused {
				t.Errorf("%s = %.40q: refused %v, with defaults %v", l.path, text, refused, again)
			}
			switch {
			case free[l.path] != "" && !l.key:
				if want := strings.ContainsRune(text, 0) || !utf8.ValidString(text); refused != want {
					t.Errorf("%s = %.40q: refused is %v", l.path, text, refused)
				}
			case slices.Contains(local, l.path) && text == "../../etc/passwd":
			case !refused:
				t.Errorf("%s = %.40q is accepted", l.path, text)
			}
			if err := env.Validate(); err != nil && len(text) > 3 && strings.Contains(err.Error(), text) {
				t.Errorf("%s: the refused value is repeated: %.300v", l.path, err)
			}
		}
	}
}

// accepted has for each string of an environment a value that is right, so that the
// rules are known not to refuse everything.
var accepted = map[string][]string{
	"kind": {"Environment"}, "apiVersion": {"holodeck.nvidia.com/v1alpha1"},
	"metadata.name": {"a", "a-1.example"}, "metadata.namespace": {"default"}, "metadata.labels": {"a", ""}, "metadata.annotations": {"any text"},
	"spec.provider": {"aws", "ssh"},

	"spec.auth.keyName": {"ci@example.com", "my key (2)"[:6]}, "spec.auth.username": {"ubuntu", "ec2-user", "_x", "First.Last"},
	"spec.auth.publicKey": {"~/.ssh/id.pub"}, "spec.auth.privateKey": {"/home/jürgen/my keys/a+b@c,d=e:f-g_h", "../k", "k"},
	"spec.auth.sshConfig.bastion.host":       {"jump", "192.0.2.1:22", "::1", "[::1]:22", "a_b.example.com:65535"},
	"spec.auth.sshConfig.bastion.username":   {"hop"},
	"spec.auth.sshConfig.bastion.privateKey": {"key"}, "spec.auth.sshConfig.agentSocket": {"/run/agent.1"},
	"spec.auth.sshConfig.knownHostsPolicy": {"accept-new", "strict", "off"},

	"spec.instance.type": {"g4dn.xlarge", "u-6tb1.metal"}, "spec.instance.region": {"eu-west-1", "us-gov-west-1", "ap-southeast-2"},
	"spec.instance.os": {"ubuntu-22.04", "rocky-9"}, "spec.instance.hostUrl": {"h.example.com", "192.0.2.1:2222"},
	"spec.instance.image.architecture": {"x86_64", "arm64"}, "spec.instance.image.creationDate": {"2024-02-07T00:00:00.000Z"},
	"spec.instance.image.description": {"Canonical, Ubuntu, 22.04 LTS (jammy)"}, "spec.instance.image.imageId": {"ami-0123456789abcdef0"},
	"spec.instance.image.imageLocation": {"amazon/ubuntu-jammy"}, "spec.instance.image.name": {"ubuntu/images/hvm-ssd/jammy-22.04"},
	"spec.instance.image.ownerId": {"099720109477", "amazon"}, "spec.instance.ingressIpRanges[0]": {"192.0.2.0/24", "::/0"},

	"spec.cluster.region": {"eu-west-1"}, "spec.cluster.podCIDR": {"10.244.0.0/16", "fd00::/48"}, "spec.cluster.controlPlaneEndpoint": {"api.example.com:6443", "192.0.2.1"},
	"spec.cluster.controlPlane.instanceType": {"m5.xlarge"}, "spec.cluster.controlPlane.os": {"ubuntu-24.04"},
	"spec.cluster.controlPlane.image.architecture": {"arm64"}, "spec.cluster.controlPlane.image.creationDate": {"2024-02-07"},
	"spec.cluster.controlPlane.image.description": {"x"}, "spec.cluster.controlPlane.image.imageId": {"ami-01234567"},
	"spec.cluster.controlPlane.image.imageLocation": {"x"}, "spec.cluster.controlPlane.image.name": {"x"}, "spec.cluster.controlPlane.image.ownerId": {"x"},
	"spec.cluster.controlPlane.labels": {"a", ""}, "spec.cluster.controlPlane.taints[0].key": {"a", "example.com/a_b.c"},
	"spec.cluster.controlPlane.taints[0].value": {"", "a"}, "spec.cluster.controlPlane.taints[0].effect": {"NoExecute", "PreferNoSchedule"},
	"spec.cluster.workers.instanceType": {"g5g.xlarge"}, "spec.cluster.workers.os": {"amazon-linux-2023"},
	"spec.cluster.workers.image.architecture": {"amd64"}, "spec.cluster.workers.image.creationDate": {"2024"},
	"spec.cluster.workers.image.description": {"x"}, "spec.cluster.workers.image.imageId": {"ami-01234567"},
	"spec.cluster.workers.image.imageLocation": {"x"}, "spec.cluster.workers.image.name": {"x"}, "spec.cluster.workers.image.ownerId": {"x"},
	"spec.cluster.workers.labels": {"A.b_c-d"}, "spec.cluster.workers.taints[0].key": {"a"},
	"spec.cluster.workers.taints[0].value": {"a"}, "spec.cluster.workers.taints[0].effect": {"NoSchedule"},
	"spec.cluster.highAvailability.etcdTopology": {"stacked"}, "spec.cluster.highAvailability.loadBalancerType": {"nlb", "alb"},

	"spec.kernel.version":      {"6.8.0-88-generic", "5.14.0-570.el9_6.x86_64", "6.1.155-176.282.amzn2023.x86_64"},
	"spec.nvidiaDriver.source": {"package", "runfile"}, "spec.nvidiaDriver.branch": {"580", "575-server"}, "spec.nvidiaDriver.version": {"580.95.05"},
	"spec.nvidiaDriver.package.branch": {"570"}, "spec.nvidiaDriver.package.version": {"580.95.05-0ubuntu1", "3:580.95.05-1.el9"},
	"spec.nvidiaDriver.runfile.url":      {"https://us.download.nvidia.com/a_b/c?d=e%20f&g~h#i", "https://[2001:db8::1]:8443/x"},
	"spec.nvidiaDriver.runfile.checksum": {"sha256:" + strings.Repeat("aB3", 21) + "0"},
	"spec.containerRuntime.name":         {"docker", "containerd", "crio"}, "spec.containerRuntime.source": {"package"},
	"spec.containerRuntime.version": {"5:28.0.1-1~ubuntu.24.04~noble"}, "spec.containerRuntime.package.version": {"1.7.27", "2.0.0+ds1-1"},
	"spec.nvidiaContainerToolkit.source": {"package"}, "spec.nvidiaContainerToolkit.version": {"1.18.0-1"},
	"spec.nvidiaContainerToolkit.package.channel": {"stable", "experimental"}, "spec.nvidiaContainerToolkit.package.version": {"1.18.0~rc.1-1"},

	"spec.kubernetes.source": {"release"}, "spec.kubernetes.installer": {"kubeadm", "kind", "microk8s"},
	"spec.kubernetes.release.version": {"v1.36.3", "1.31.0", "v1.31.14"}, "spec.kubernetes.version": {"v1.36.3"},
	"spec.kubernetes.kubeConfig": {"out/kubeconfig"}, "spec.kubernetes.kubeletReleaseVersion": {"v0.18.0"}, "spec.kubernetes.arch": {"amd64", "arm64"},
	"spec.kubernetes.cniPluginsVersion": {"v1.9.1", "1.9.1-1.1"}, "spec.kubernetes.calicoVersion": {"v3.32.1", "3.32.1"}, "spec.kubernetes.crictlVersion": {"v1.35.0"},
	"spec.kubernetes.k8sEndpointHost": {"api.example.com", "2001:db8::1"}, "spec.kubernetes.k8sFeatureGates[0]": {"AllAlpha=true", "X1=false"},
	"spec.kubernetes.kubeAdmConfig": {"kubeadm.yaml"}, "spec.kubernetes.kindConfig": {"kind.yaml"}, "spec.loadBalancer.type": {"nlb", "alb"}, "spec.loadBalancer.healthCheckPath": {"/healthz", "/"},

	"spec.customTemplates[0].name": {"t", "a-b_c.2"}, "spec.customTemplates[0].phase": {"pre-install", "post-runtime", "post-toolkit", "post-kubernetes", "post-install"},
	"spec.customTemplates[0].url": {"https://raw.githubusercontent.com/o/r_r/x.sh"}, "spec.customTemplates[0].file": {"x.sh", "a/b c"[:3], "./a", "a..b", "ä/ö"},
	"spec.customTemplates[0].checksum": {"sha256:" + strings.Repeat("0", 64)}, "spec.customTemplates[0].inline": {"x"}, "spec.customTemplates[0].env": {"any text"},

	"status.properties[0].name": {"vpc-id"}, "status.properties[0].value": {"vpc-01", "ec2-192-0-2-1.compute.amazonaws.com"},
	"status.conditions[0].type": {"Available"}, "status.conditions[0].status": {"True"}, "status.conditions[0].reason": {"Made"}, "status.conditions[0].message": {"any text"},
	"status.cluster.controlPlaneEndpoint": {"10.0.0.1:6443"}, "status.cluster.loadBalancerDns": {"lb.example.com"}, "status.cluster.phase": {"Ready"},
	"status.cluster.nodes[0].name": {"cp-0"}, "status.cluster.nodes[0].role": {"worker"}, "status.cluster.nodes[0].instanceId": {"i-0123456789abcdef0", "mi-0123456789abcdef0"},
	"status.cluster.nodes[0].publicIp": {"192.0.2.1"}, "status.cluster.nodes[0].privateIp": {"fd00::1"}, "status.cluster.nodes[0].sshUsername": {"ubuntu"},
	"status.cluster.nodes[0].phase": {"Running"}, "status.cluster.nodes[0].message": {"any text"},
}

// never are the parts that no value is right for, with the reason.
var never = map[string]string{
	"metadata.generateName": "a server's", "metadata.selfLink": "a server's", "metadata.uid": "a server's", "metadata.resourceVersion": "a server's",
	"metadata.ownerReferences": "a server's", "metadata.finalizers": "a server's", "metadata.managedFields": "a server's",
	"spec.nvidiaDriver.git": "nothing is built", "spec.containerRuntime.git": "nothing is built", "spec.containerRuntime.latest": "nothing is built",
	"spec.nvidiaContainerToolkit.git": "nothing is built", "spec.nvidiaContainerToolkit.latest": "nothing is built",
	"spec.kubernetes.git": "nothing is built", "spec.kubernetes.latest": "nothing is built",
	"spec.kubernetes.features": "never had a meaning",
}

func neverRight(path string) string {
	for p := range never {
		if path == p || strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"[") {
			return p
		}
	}
	return ""
}

func TestEveryStringHasARightValue(t *testing.T) {
	t.Parallel()
	covered := make(map[string]bool)
	for _, l := range leaves() {
		if l.key {
			env := with(l, "Key")
			if refuses(t, env, l.path) {
				t.Errorf("%s: an ordinary key is refused: %v", l.path, env.Validate())
			}
			continue
		}
		covered[l.path] = true
		values := accepted[l.path]
		if name, ok := strings.CutPrefix(l.path, "status.components."); ok {
			_, name, _ = strings.Cut(name, ".")
			values = map[string][]string{
				"source": {"package", "git"}, "version": {"1.2.3"}, "branch": {"main", "580"}, "repo": {"https://github.com/o/r_r.git"},
				"ref": {"refs/tags/v1.2.3", "my_branch", "a@b"}, "commit": {"0123abcd"},
			}[name]
		}
		if (len(values) == 0) != (neverRight(l.path) != "") {
			t.Errorf("%s has no right value here", l.path)
		}
		for _, value := range values {
			if env := with(l, value); refuses(t, env, l.path) {
				t.Errorf("%s = %q is refused: %v", l.path, value, env.Validate())
			}
		}
	}
	for path := range accepted {
		if !covered[path] {
			t.Errorf("%s does not exist", path)
		}
	}
}
