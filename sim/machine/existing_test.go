package machine_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
	"github.com/kubeopera/platform/sim/machine"
	"github.com/kubeopera/platform/sim/machine/sshd"
)

// sshKey is somebody's key, also as a file for the ssh command.
type sshKey struct {
	signer ssh.Signer
	file   string
	public string
}

func newKey(t *testing.T) sshKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return sshKey{signer: signer, file: path, public: string(ssh.MarshalAuthorizedKey(signer.PublicKey()))}
}

// launchExisting launches machines of one network, all at once.
func launchExisting(t *testing.T, key sshKey, specs ...machine.ExistingMachine) []*machine.Existing {
	t.Helper()
	machines := theMachines(t)
	if _, err := sshd.Find(t.Context(), controlplanetest.Root(t), true, io.Discard); err != nil {
		skip.Missing(t, skip.SSHServer, err.Error())
	}
	launched, problems := make([]*machine.Existing, len(specs)), make([]error, len(specs))
	var all sync.WaitGroup
	for i, spec := range specs {
		spec.AuthorizedKeys, spec.Network = key.public, t.Name()
		all.Go(func() { launched[i], problems[i] = machines.LaunchExisting(t.Context(), spec) })
	}
	all.Wait()
	for _, m := range launched {
		if m == nil {
			continue
		}
		t.Cleanup(func() {
			if t.Failed() {
				log, err := m.Log()
				t.Logf("console of %s (%v):\n%s", m.Name(), err, log)
			}
			if err := m.Terminate(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	if err := errors.Join(problems...); err != nil {
		t.Fatal(err)
	}
	return launched
}

// login is a connection of x/crypto's client that checks the host key.
func login(t *testing.T, m *machine.Existing, key sshKey, connection net.Conn) *ssh.Client {
	t.Helper()
	if connection == nil {
		var err error
		if connection, err = dial(t, m); err != nil {
			t.Fatal(err)
		}
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(m.HostKeys()[0]))
	if err != nil {
		t.Fatal(err)
	}
	secure, channels, requests, err := ssh.NewClientConn(connection, m.Endpoint(), &ssh.ClientConfig{
		User: m.User(), Auth: []ssh.AuthMethod{ssh.PublicKeys(key.signer)},
		HostKeyCallback: ssh.FixedHostKey(host), HostKeyAlgorithms: []string{host.Type()},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(secure, channels, requests)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func dial(t *testing.T, m *machine.Existing) (net.Conn, error) {
	t.Helper()
	return new(net.Dialer).DialContext(t.Context(), "tcp", m.Endpoint())
}

func runSSH(t *testing.T, client *ssh.Client, command string) string {
	t.Helper()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	out, err := session.CombinedOutput(command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

func TestAnExistingMachineLetsItsUserIn(t *testing.T) {
	key := newKey(t)
	m := launchExisting(t, key, machine.ExistingMachine{Name: "one"})[0]
	if _, err := exec.LookPath("ssh"); err != nil {
		skip.Missing(t, skip.SSH, err.Error())
	}
	known := filepath.Join(t.TempDir(), "known_hosts")
	var lines strings.Builder
	for _, hostKey := range m.HostKeys() {
		fmt.Fprintf(&lines, "[%s]:%d %s\n", m.Address(), m.Port(), hostKey)
	}
	if err := os.WriteFile(known, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(user, script string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "ssh", "-F", "none", "-i", key.file, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
			"-o", "UserKnownHostsFile="+known, "-o", "StrictHostKeyChecking=yes", "-p", strconv.Itoa(m.Port()), user+"@"+m.Address(), script)
	}
	out, err := command(m.User(), `hostname; whoami; sudo -n id -u; sudo -n sh -c 'cat; exit 7'`+" <<<input; echo $?; tty || true").CombinedOutput()
	user := m.User()
	if os.Geteuid() == 0 && strings.Contains(string(out), "\nroot\n") {
		user = "root" // the only user of a user namespace
	}
	if want := "one\n" + user + "\n0\ninput\n7\nnot a tty\n"; err != nil || string(out) != want {
		t.Errorf("ssh says %q, %v; want %q", out, err, want)
	}
	if out, err := command("root", "true").CombinedOutput(); err == nil || !strings.Contains(string(out), "Permission denied (publickey)") {
		t.Errorf("a stranger as root: %v\n%s", err, out)
	}
	if out, code, err := m.Exec(t.Context(), "id -u; exit 3"); err != nil || code != 3 || out != "0\n" {
		t.Errorf("exec gives %q, %d, %v", out, code, err)
	}
	connection, err := theMachines(t).DialPort(t.Context(), m.ID(), sshd.Port)
	if err != nil {
		t.Fatal(err)
	}
	if out := runSSH(t, login(t, m, key, connection), "hostname -I"); strings.TrimSpace(out) != m.PrivateIP() {
		t.Errorf("through the agent the machine has the address %q, not %s", out, m.PrivateIP())
	}
}

func TestSSHConnectionsFailOnDemand(t *testing.T) {
	key := newKey(t)
	m := launchExisting(t, key, machine.ExistingMachine{Name: "one", User: "root"})[0]
	broken := func(t *testing.T, client *ssh.Client) {
		t.Helper()
		ended := make(chan struct{})
		go func() {
			_ = client.Wait() // however it ends
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("the connection lives")
		}
	}
	t.Run("cut", func(t *testing.T) {
		client := login(t, m, key, nil)
		m.Cut()
		broken(t, client)
		runSSH(t, login(t, m, key, nil), "true")
	})
	t.Run("cut after some bytes", func(t *testing.T) {
		client := login(t, m, key, nil)
		m.CutAfter(100_000)
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := session.Output("head -c 1000000 /dev/zero"); err == nil || len(out) > 100_000 {
			t.Errorf("%d bytes arrive, %v", len(out), err)
		}
		broken(t, client)
		runSSH(t, login(t, m, key, nil), "true")
	})
	t.Run("black hole", func(t *testing.T) {
		client := login(t, m, key, nil)
		m.Blackhole()
		answered := make(chan string, 1)
		go func() {
			session, err := client.NewSession()
			if err != nil {
				answered <- err.Error()
				return
			}
			out, _ := session.Output("echo late")
			answered <- string(out)
		}()
		if out, _, err := m.Exec(t.Context(), "echo now"); err != nil || out != "now\n" {
			t.Errorf("exec gives %q, %v", out, err)
		}
		select {
		case out := <-answered:
			t.Errorf("out of the black hole comes %q", out)
		default:
		}
		if err := m.Restore(); err != nil {
			t.Fatal(err)
		}
		if out := <-answered; out != "late\n" {
			t.Errorf("after the restoration comes %q", out)
		}
	})
	t.Run("refused", func(t *testing.T) {
		client := login(t, m, key, nil)
		m.Refuse()
		broken(t, client)
		if _, err := dial(t, m); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial gives %v, want connection refused", err)
		}
		if err := m.Restore(); err != nil {
			t.Fatal(err)
		}
		runSSH(t, login(t, m, key, nil), "true")
	})
	t.Run("reboot", func(t *testing.T) {
		client := login(t, m, key, nil)
		const bootID = "cat /proc/sys/kernel/random/boot_id"
		before := runSSH(t, client, bootID)
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		_ = session.Run("systemctl reboot") // it may end before it is told of its end
		broken(t, client)
		until(t, "the machine is back", func() bool {
			out, _, err := m.Exec(t.Context(), bootID)
			return err == nil && out != before
		})
		until(t, "it can be reached", func() bool {
			connection, err := dial(t, m)
			if err == nil {
				_ = connection.Close()
			}
			return err == nil
		})
		runSSH(t, login(t, m, key, nil), "true")
	})
	t.Run("the end", func(t *testing.T) {
		client := login(t, m, key, nil)
		m.Kill()
		broken(t, client)
		if _, err := dial(t, m); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial gives %v, want connection refused", err)
		}
	})
}

func TestEightMachinesAtOnce(t *testing.T) {
	key := newKey(t)
	var specs []machine.ExistingMachine
	for i := range 8 {
		specs = append(specs, machine.ExistingMachine{Name: "node-" + strconv.Itoa(i)})
	}
	began := time.Now()
	machines := launchExisting(t, key, specs...)
	t.Logf("eight machines in %s", time.Since(began))
	// One is the way to another, by its private address.
	bastion := login(t, machines[0], key, nil)
	through, err := bastion.Dial("tcp", net.JoinHostPort(machines[7].PrivateIP(), "22"))
	if err != nil {
		t.Fatal(err)
	}
	if out := runSSH(t, login(t, machines[7], key, through), "hostname"); out != "node-7\n" {
		t.Errorf("behind the bastion is %q", out)
	}
}

// prepareExisting is what kubeadm wants, with either package manager.
const prepareExisting = `set -eu
. /etc/os-release
echo 'net.ipv4.ip_forward = 1' >/etc/sysctl.d/90-test.conf; sysctl --system
if command -v dnf >/dev/null; then
  printf '[k]\nbaseurl=https://pkgs.k8s.io/core:/stable:/v1.35/rpm/\n[d]\nbaseurl=https://download.docker.com/linux/rhel/9/x86_64/stable\n' >/etc/yum.repos.d/test.repo
  dnf -y -q install 'containerd.io-2.*' kubelet-1.35.5 kubeadm-1.35.5 kubectl-1.35.5 conntrack-tools
  rpm -q --qf '%{EPOCH}\t%{VERSION}-%{RELEASE}\n' kubelet
else
  echo 'deb https://pkgs.k8s.io/core:/stable:/v1.35/deb/ /' >/etc/apt/sources.list.d/kubernetes.list
  echo 'deb https://download.docker.com/linux/ubuntu noble stable' >/etc/apt/sources.list.d/docker.list
  apt-get -y install conntrack 'containerd.io=2.*' 'kubelet=1.35.5-*' 'kubeadm=1.35.5-*' 'kubectl=1.35.5-*'
  dpkg-query -W -f='${Status}\t${Version}\n' kubelet
fi
containerd config default >/etc/containerd/config.toml
systemctl restart containerd; systemctl enable containerd kubelet
`

// asRoot runs a script through the user's login.
func asRoot(t *testing.T, m *machine.Existing, key sshKey, script string) string {
	t.Helper()
	session, err := login(t, m, key, nil).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	session.Stdin = strings.NewReader(script)
	out, err := session.CombinedOutput("sudo -n bash -s")
	if err != nil {
		t.Fatalf("on %s: %v\n%s", m.Name(), err, out)
	}
	return string(out)
}

func TestKubeadmByHandOnExistingMachines(t *testing.T) {
	key := newKey(t)
	machines := launchExisting(t, key, machine.ExistingMachine{Name: "cp-1"}, machine.ExistingMachine{Name: "cp-2"},
		machine.ExistingMachine{Name: "worker-1", OS: machine.Rocky9})
	var all sync.WaitGroup
	prepared := make([]string, len(machines))
	for i, m := range machines {
		all.Go(func() { prepared[i] = asRoot(t, m, key, prepareExisting) })
	}
	all.Wait()
	for i, want := range []string{"install ok installed\t1.35.5-1.1\n", "install ok installed\t1.35.5-1.1\n", "(none)\t1.35.5-150500.1.1\n"} {
		if !strings.Contains(prepared[i], want) {
			t.Errorf("machine %d does not say %q:\n%s", i, want, prepared[i])
		}
	}
	first, second, worker := machines[0], machines[1], machines[2]
	balancer, err := theMachines(t).Balance(t.Context(), first, second)
	if err != nil {
		t.Fatal(err)
	}
	const certificateKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	asRoot(t, first, key, `set -eu
cat >/root/init.yaml <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
certificateKey: "`+certificateKey+`"
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v$(kubeadm version -o short | tr -d v)
controlPlaneEndpoint: "`+balancer+`:6443"
apiServer: {certSANs: ["`+first.Address()+`"]}
networking: {podSubnet: 10.244.0.0/16}
END
kubeadm init --config /root/init.yaml --skip-token-print
export KUBECONFIG=/etc/kubernetes/admin.conf
for file in operator-crds tigera-operator; do
  curl -sS -f https://raw.githubusercontent.com/projectcalico/calico/v3/manifests/$file.yaml | kubectl apply --server-side -f -
done
printf 'apiVersion: operator.tigera.io/v1\nkind: Installation\nmetadata: {name: default}\n' | kubectl apply -f -
kubeadm init phase upload-certs --upload-certs --skip-certificate-key-print --config /root/init.yaml
`)
	token := strings.TrimSpace(asRoot(t, first, key, "kubeadm token create --ttl 10m --description test"))
	join := func(m *machine.Existing, more string) {
		asRoot(t, m, key, `cat >/root/join.yaml <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken: {apiServerEndpoint: "`+balancer+`:6443", token: "`+token+`", unsafeSkipCAVerification: true}
`+more+"END\nkubeadm join --config /root/join.yaml\n")
	}
	join(second, "controlPlane: {certificateKey: "+certificateKey+"}\n")
	join(worker, "")

	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(asRoot(t, first, key, "cat /etc/kubernetes/admin.conf")))
	if err != nil {
		t.Fatal(err)
	}
	if want := "https://" + balancer + ":6443"; config.Host != want {
		t.Errorf("the kubeconfig leads to %s, want %s", config.Host, want)
	}
	// By the balancer, and by the machine's own address.
	var kube *kubernetes.Clientset
	for _, host := range []string{config.Host, "https://" + first.Address() + ":6443"} {
		config.Host = host
		if kube, err = kubernetes.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
		untilNodes(t, kube, 3)
	}
	if got := asRoot(t, first, key, `kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes -o 'jsonpath={range .items[*]}{.metadata.name} {.status.addresses[0].address}{"\n"}{end}'`); got !=
		"cp-1 "+first.PrivateIP()+"\ncp-2 "+second.PrivateIP()+"\nworker-1 "+worker.PrivateIP()+"\n" {
		t.Errorf("nodes are\n%s", got)
	}
	asRoot(t, worker, key, "kubeadm reset --force --cri-socket unix:///run/containerd/containerd.sock")
	asRoot(t, second, key, "kubeadm reset --force")
	out := asRoot(t, first, key, `set -eu; export KUBECONFIG=/etc/kubernetes/admin.conf
kubectl drain worker-1 --ignore-daemonsets --delete-emptydir-data --timeout=20s
kubectl delete node worker-1 cp-2
kubectl get --raw=/readyz; echo
kubectl -n kube-system exec etcd-cp-1 -c etcd -- etcdctl member list -w simple`)
	if !strings.Contains(out, "\nok\n") || strings.Contains(out, "cp-2, https") {
		t.Errorf("after the resets:\n%s", out)
	}
	asRoot(t, first, key, "kubeadm reset -f")
	if _, err := kube.Discovery().ServerVersion(); err == nil {
		t.Error("after the last reset an API server answers")
	}
}
