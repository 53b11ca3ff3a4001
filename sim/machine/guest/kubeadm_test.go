package guest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const initDocuments = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: 10.0.1.5
nodeRegistration:
  name: one
  kubeletExtraArgs:
    - {name: node-ip, value: 10.0.1.5}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.35.5
controlPlaneEndpoint: "lb.example:6443"
networking: {serviceSubnet: 10.96.0.0/12}
apiServer:
  certSANs: ["203.0.113.5"]
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
`

func TestTheCertificateHoldsWhatKubeadmPutsIn(t *testing.T) {
	t.Parallel()
	var c kubeadmConfig
	if err := c.read(initDocuments); err != nil {
		t.Fatal(err)
	}
	got, err := c.names("one", c.init.LocalAPIEndpoint.AdvertiseAddress)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"one", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"10.96.0.1", "10.0.1.5", "lb.example", "203.0.113.5",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if !strings.Contains(c.kubelet, "cgroupDriver: systemd") {
		t.Errorf("the kubelet's document is %q", c.kubelet)
	}
}

func TestCheckInit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, installed, endpoint, version, want string
	}{
		{"its own version", "1.35.5", "lb:6443", "v1.35.5", ""},
		{"the minor before", "1.35.5", "lb:6443", "v1.34.1", ""},
		{"two minors before", "1.35.5", "lb:6443", "v1.33.1", ">= 1.34.0"},
		{"the next minor", "1.35.5", "lb:6443", "v1.36.1", "<= 1.35.5"},
		{"an endpoint with capitals", "1.35.5", "LB.example:6443", "v1.35.5", "lowercase RFC 1123"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := kubeadmConfig{}
			c.cluster.ControlPlaneEndpoint, c.cluster.KubernetesVersion = test.endpoint, test.version
			err := c.checkInit(test.installed)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

func TestPackageVersions(t *testing.T) {
	t.Parallel()
	pkg := aptPackage{revision: "-1.1", newest: "2.3.2-1"}
	for wanted, want := range map[string]string{"": "2.3.2-1", "2.*": "2.3.2-1", "1.35.5-*": "1.35.5-1.1", "1.35.5-1.1": "1.35.5-1.1"} {
		if got, err := pkg.version("p", wanted); err != nil || got != want {
			t.Errorf("%q gives %q, %v, want %q", wanted, got, err, want)
		}
	}
	if got, err := pkg.version("p", "1.*"); err == nil {
		t.Errorf("1.* gives %s", got)
	}
	if got, err := catalog(false)["kubeadm"].version("kubeadm", "1.35.5-*"); err == nil {
		t.Errorf("without a repository kubeadm is there: %s", got)
	}
}

func FuzzKubeadmConfig(f *testing.F) {
	f.Add(initDocuments)
	f.Add("kind: JoinConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\ncontrolPlane: {}\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		var c kubeadmConfig
		if c.read(text) != nil {
			return
		}
		if c.checkInit("1.35.5") == nil && c.endpoint() != strings.ToLower(c.endpoint()) {
			t.Errorf("the endpoint %q is accepted", c.endpoint())
		}
	})
}
