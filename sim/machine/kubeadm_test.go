package machine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/sim/machine"
)

// prepareNode is what every node does before kubeadm.
const prepareNode = `#!/bin/bash
set -eux -o pipefail
ip() { token=$(curl -sS -f -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)
  curl -sS -f -H "X-aws-ec2-metadata-token: $token" http://169.254.169.254/latest/meta-data/local-ipv4; }
echo 'net.ipv4.ip_forward = 1' >/etc/sysctl.d/90-test.conf
sysctl --system
apt-get -y install conntrack
echo 'deb https://pkgs.k8s.io/core:/stable:/v1.35/deb/ /' >/etc/apt/sources.list.d/kubernetes.list
echo 'deb https://download.docker.com/linux/ubuntu noble stable' >/etc/apt/sources.list.d/docker.list
apt-get -y install 'containerd.io=2.*' 'kubelet=1.35.5-*' 'kubeadm=1.35.5-*' 'kubectl=1.35.5-*'
mkdir -p /etc/containerd
containerd config default >/etc/containerd/config.toml
systemctl restart containerd
systemctl enable containerd kubelet
registration() {
  cat <<END
nodeRegistration:
  name: $(hostname)
  kubeletExtraArgs:
    - name: cloud-provider
      value: external
    - name: node-ip
      value: $(ip)
END
}
export KUBECONFIG=/etc/kubernetes/admin.conf
`

const initNode = prepareNode + `
key=$(openssl rand -hex 32)
cat >/root/init.yaml <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
certificateKey: "$key"
localAPIEndpoint:
  advertiseAddress: $(ip)
  bindPort: 6443
$(registration)
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: test
kubernetesVersion: v1.35.5
controlPlaneEndpoint: "$(ip):6443"
networking:
  podSubnet: 10.244.0.0/16
  serviceSubnet: 10.96.0.0/12
END
kubeadm init --config /root/init.yaml --upload-certs --skip-certificate-key-print
if kubeadm init --config /root/init.yaml; then echo "a second init"; exit 1; fi
curl -sS -f https://raw.githubusercontent.com/projectcalico/calico/v3/manifests/operator-crds.yaml | kubectl apply --server-side -f -
curl -sS -f https://raw.githubusercontent.com/projectcalico/calico/v3/manifests/tigera-operator.yaml | kubectl apply --server-side -f -
kubectl wait --for=condition=Established crd/installations.operator.tigera.io --timeout=20s
kubectl apply -f - <<END
apiVersion: operator.tigera.io/v1
kind: Installation
metadata:
  name: default
END
kubectl wait --for=condition=Ready node/$(hostname) --timeout=30s
kubectl -n kube-system rollout status deployment/coredns --timeout=30s
kubectl get nodes -o wide
hash=sha256:$(openssl x509 -in /etc/kubernetes/pki/ca.crt -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum | cut -d' ' -f1)
token=$(kubeadm token create --ttl 24h)
kubectl -n kube-system exec etcd-$(hostname) -c etcd -- etcdctl member list -w simple
printf '%s %s %s %s' "$(ip)" "$token" "$hash" "$key" >/root/join
echo "the cluster is there"
`

// joinNode joins the cluster of which initNode has written what it takes.
func joinNode(join string, controlPlane bool) string {
	words := strings.Fields(join)
	plane := ""
	if controlPlane {
		plane = fmt.Sprintf("controlPlane:\n  certificateKey: %q\n  localAPIEndpoint:\n    advertiseAddress: $(ip)\n    bindPort: 6443\n", words[3])
	}
	return prepareNode + fmt.Sprintf(`
cat >/root/join.yaml <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: "%s:6443"
    token: "%s"
    caCertHashes: ["%s"]
%s$(registration)
END
kubeadm join --config /root/join.yaml || { echo "join failed with $?"; exit 1; }
kubectl --kubeconfig /etc/kubernetes/kubelet.conf get node $(hostname)
echo "joined"
`, words[0], words[1], words[2], plane)
}

// makeCluster is a cluster of one control plane, and what it takes to join it.
func makeCluster(t *testing.T) (first *machine.Machine, join string) {
	t.Helper()
	first = launch(t, initNode)
	prints(t, first, "the cluster is there")
	path, err := first.Path("/root/join")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return first, string(content)
}

// run runs a script on a machine and gives its output and exit code.
func run(t *testing.T, m *machine.Machine, script string) (string, int) {
	t.Helper()
	runs++
	name := fmt.Sprintf("test-%d", runs)
	unit := "[Service]\nType=oneshot\nExecStart=/bin/bash /opt/" + name + ".sh\nStandardOutput=truncate:/opt/" + name + ".out\n"
	for path, content := range map[string]string{"/etc/systemd/system/" + name + ".service": unit, "/opt/" + name + ".sh": script} {
		if err := os.WriteFile(onDisk(t, m, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := m.Systemctl(t.Context(), "start", name); err != nil {
		t.Fatal(err)
	}
	_, status, err := m.Systemctl(t.Context(), "show", "--value", "-p", "ExecMainStatus", name)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(onDisk(t, m, "/opt/"+name+".out"))
	if err != nil {
		t.Fatal(err)
	}
	var code int
	if _, err := fmt.Sscan(status, &code); err != nil {
		t.Fatal(err)
	}
	return string(out), code
}

var runs int // tests here do not run in parallel

func onDisk(t *testing.T, m *machine.Machine, path string) string {
	t.Helper()
	found, err := m.Path(path)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestKubeadm(t *testing.T) {
	before := theMachines(t).Inits()
	first, join := makeCluster(t)
	clusters := theMachines(t).Clusters()
	c := clusters[len(clusters)-1]
	secrets := c.Kubernetes().CoreV1().Secrets("kube-system")

	worker := launch(t, joinNode(join, false))
	prints(t, worker, "joined")

	// A machine on which every join fails for a reason of its own.
	spare := launch(t, prepareNode+"echo prepared\n")
	prints(t, spare, "prepared")
	fails := func(t *testing.T, join string, controlPlane bool, words string) {
		t.Helper()
		// So many restarts at once would hit systemd's limit.
		out, code := run(t, spare, "systemctl reset-failed\n"+joinNode(join, controlPlane))
		if code == 0 || !strings.Contains(out, words) {
			t.Errorf("the join ends with %d, and does not say %q:\n%s", code, words, out)
		}
		if out, code := run(t, spare, "kubeadm reset --force"); code != 0 {
			t.Errorf("reset ends with %d: %s", code, out)
		}
	}
	fields := strings.Fields(join)
	with := func(field int, value string) string {
		changed := slices.Clone(fields)
		changed[field] = value
		return strings.Join(changed, " ")
	}
	t.Run("a token that is not there", func(t *testing.T) {
		fails(t, with(1, "abcdef.0123456789abcdef"), false, `could not find a JWS signature in the cluster-info ConfigMap for token ID "abcdef"`)
	})
	t.Run("a token that has expired", func(t *testing.T) {
		out, code := run(t, first, "kubeadm --kubeconfig /etc/kubernetes/admin.conf token create --ttl 2s")
		if code != 0 {
			t.Fatal(out)
		}
		token := strings.TrimSpace(out)
		until(t, "the token is cleaned up", func() bool {
			_, err := secrets.Get(t.Context(), "bootstrap-token-"+token[:6], metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		fails(t, with(1, token), false, "could not find a JWS signature")
	})
	t.Run("the hash of another CA", func(t *testing.T) {
		fails(t, with(2, "sha256:"+strings.Repeat("0", 64)), false, "none of the public keys")
	})
	t.Run("another certificate key", func(t *testing.T) {
		fails(t, with(3, strings.Repeat("0", 64)), true, "cipher: message authentication failed")
	})
	t.Run("a learner that was never promoted", func(t *testing.T) {
		stuck, err := c.Add("https://192.0.2.1:2380")
		if err != nil {
			t.Fatal(err)
		}
		fails(t, join, true, "etcdserver: too many learner members in cluster")
		if err := c.Remove(stuck.ID); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("certificates that have expired", func(t *testing.T) {
		certs, err := secrets.Get(t.Context(), "kubeadm-certs", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// The token that owns them goes, and the garbage collector follows.
		if err := secrets.Delete(t.Context(), certs.OwnerReferences[0].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, "the certificates are gone", func() bool {
			_, err := secrets.Get(t.Context(), "kubeadm-certs", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		fails(t, join, true, `Secret "kubeadm-certs" was not found in the "kube-system" Namespace. This Secret might have expired.`)
		out, code := run(t, first, "kubeadm init phase upload-certs --upload-certs --certificate-key "+fields[3])
		if code != 0 {
			t.Fatal(out)
		}
	})

	second := launch(t, joinNode(join, true))
	prints(t, second, "joined")
	untilNodes(t, c.Kubernetes(), 3)
	if members := c.AllMembers(); len(members) != 2 || members[1].Learner || !members[1].Healthy {
		t.Fatalf("members are %+v", members)
	}
	const nodes = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout=5s get nodes --server https://127.0.0.1:6443"
	t.Run("one of two is no majority", func(t *testing.T) {
		first.Kill()
		if out, code := run(t, second, nodes); code == 0 {
			t.Errorf("the API answers without a majority:\n%s", out)
		}
		until(t, "the node is not ready", func() bool {
			node, err := c.Kubernetes().CoreV1().Nodes().Get(t.Context(), nodeName(first), metav1.GetOptions{})
			return err == nil && !nodeReady(*node)
		})
		if err := first.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		untilNodes(t, c.Kubernetes(), 3)
		if out, code := run(t, second, nodes); code != 0 {
			t.Errorf("the API does not answer after the boot:\n%s", out)
		}
	})
	t.Run("a machine that resets leaves etcd", func(t *testing.T) {
		if out, code := run(t, second, "kubeadm reset --force"); code != 0 {
			t.Fatal(out)
		}
		if members := c.AllMembers(); len(members) != 1 {
			t.Errorf("members are %+v", members)
		}
		if out, code := run(t, first, nodes); code != 0 {
			t.Errorf("the API does not answer:\n%s", out)
		}
	})
	if inits := theMachines(t).Inits() - before; inits != 1 {
		t.Errorf("%d clusters were made", inits)
	}
}

func nodeName(m *machine.Machine) string {
	name, _, _ := strings.Cut(m.Instance().PrivateDNS, ".")
	return name
}
