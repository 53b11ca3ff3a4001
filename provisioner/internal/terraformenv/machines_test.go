package terraformenv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// bootstrapDir holds the scripts that machines run.
var bootstrapDir = filepath.Join(modulesDir, "compute", "bootstrap")

// account is what machines share: parameters, instances and one cluster, all in a
// directory, and the stand-ins of testdata/machine that work on it. The scripts are
// the real ones; each machine's files are below a root of its own.
type account struct {
	dir, bin string
	count    int // control planes
}

func newAccount(tb testing.TB, count int) *account {
	tb.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		tb.Fatal(err)
	}
	a := &account{dir: tb.TempDir(), count: count}
	a.bin = filepath.Join(a.dir, "bin")
	for _, dir := range []string{a.bin, filepath.Join(a.dir, "parameters")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	stands, err := filepath.Abs(filepath.Join("testdata", "machine"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range []string{"aws", "curl", "gpg", "containerd", "kubeadm", "kubectl"} {
		a.link(tb, filepath.Join(stands, name), name)
	}
	for _, name := range []string{"apt-get", "apt-mark", "crictl", "modprobe", "swapoff", "sysctl", "systemctl"} {
		a.link(tb, filepath.Join(stands, "nothing"), name)
	}
	environment := goldenEnvironments()["vanilla"]
	environment.Name, environment.ControlPlaneCount = "test", count
	for _, name := range environment.parameters() {
		writeFile(tb, a.parameterFile(name), "PENDING")
	}
	writeFile(tb, filepath.Join(a.dir, "instances"), "")
	return a
}

func (a *account) link(tb testing.TB, target, name string) {
	tb.Helper()
	if err := os.Symlink(target, filepath.Join(a.bin, name)); err != nil {
		tb.Fatal(err)
	}
}

func (a *account) parameterFile(name string) string {
	return filepath.Join(a.dir, "parameters", strings.ReplaceAll(name, "/", "%"))
}

// parameter is the value of a parameter below the prefix.
func (a *account) parameter(tb testing.TB, name string) string {
	tb.Helper()
	return a.read(tb, filepath.Join("parameters", strings.ReplaceAll("/kubeopera/test/"+name, "/", "%")))
}

func (a *account) read(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(a.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		tb.Fatal(err)
	}
	return string(text)
}

func (a *account) append(tb testing.TB, name, text string) {
	tb.Helper()
	writeFile(tb, filepath.Join(a.dir, name), a.read(tb, name)+text)
}

// events are what happened to the cluster, by machine, in order.
func (a *account) events(tb testing.TB, kinds ...string) []string {
	tb.Helper()
	events := []string{}
	for line := range strings.Lines(a.read(tb, "events")) {
		line = strings.TrimSpace(line)
		if _, kind, _ := strings.Cut(line, " "); slices.Contains(kinds, kind) {
			events = append(events, line)
		}
	}
	return events
}

// machine is one instance.
type machine struct {
	account           *account
	id, address, root string
	role              string
	index             int
	extra             string // of bootstrap.override
	env               []string
}

// start adds an instance to the account. It does not run anything yet.
func (a *account) start(tb testing.TB, role string, index int, id, address string) *machine {
	tb.Helper()
	m := &machine{account: a, id: id, address: address, root: filepath.Join(a.dir, id), role: role, index: index}
	a.append(tb, "instances", fmt.Sprintf("%s %s running %s-%d\n", id, address, role, index))
	writeFile(tb, filepath.Join(m.root, "etc/fstab"), "/dev/sda2 none swap sw 0 0\n")
	writeFile(tb, filepath.Join(m.root, "etc/hosts"), "127.0.0.1 localhost\n")
	writeFile(tb, filepath.Join(m.root, "etc/os-release"), "VERSION_CODENAME=noble\n")
	writeFile(tb, filepath.Join(m.root, "proc/sys/kernel/random/boot_id"), "first\n")
	endpoint := ""
	if a.count > 1 {
		endpoint = "api.example.com"
	}
	writeFile(tb, filepath.Join(m.root, "etc/kubeopera/bootstrap.env"), fmt.Sprintf(`KUBEOPERA_CLUSTER_NAME=test
KUBEOPERA_CONTROL_PLANE_COUNT=%d
KUBEOPERA_KUBERNETES_VERSION=1.36.3
KUBEOPERA_PARAMETER_PREFIX=/kubeopera/test
KUBEOPERA_ROLE=%s
KUBEOPERA_INDEX=%d
KUBEOPERA_ENDPOINT_HOST=%s
KUBEOPERA_CERT_SANS=
KUBEOPERA_POD_CIDR=192.168.0.0/16
KUBEOPERA_SERVICE_CIDR=10.96.0.0/12
`, a.count, role, index, endpoint))
	return m
}

// terminate is the end of the instance; its disk is gone.
func (m *machine) terminate(tb testing.TB) {
	tb.Helper()
	line := fmt.Sprintf("%s %s running", m.id, m.address)
	text := strings.Replace(m.account.read(tb, "instances"), line, strings.Replace(line, "running", "terminated", 1), 1)
	writeFile(tb, filepath.Join(m.account.dir, "instances"), text)
	if err := os.RemoveAll(m.root); err != nil {
		tb.Fatal(err)
	}
}

// run runs the bootstrap once and returns its exit code.
func (m *machine) run(tb testing.TB) int {
	tb.Helper()
	return m.script(tb, m.role+".sh")
}

func (m *machine) script(tb testing.TB, name string) int {
	tb.Helper()
	writeFile(tb, filepath.Join(m.root, "etc/kubeopera/bootstrap.override"), "KUBEOPERA_ADDONS=\nKUBEOPERA_POLL_SECONDS=1\n"+m.extra)
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(bootstrapDir, name))
	cmd.Env = append([]string{
		"PATH=" + m.account.bin + ":" + os.ExpandEnv("$PATH"),
		"FAKE=" + m.account.dir, "KUBEOPERA_ROOT=" + m.root, "INSTANCE=" + m.id, "ADDRESS=" + m.address,
	}, m.env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	tb.Logf("%s: %v\n%s", m.id, err, output.Bytes())
	if token := regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`).Find(output.Bytes()); token != nil {
		tb.Errorf("the log has the token %s", token)
	}
	return cmd.ProcessState.ExitCode()
}

// status is a node's status without instance and time: state|phase|message.
func (a *account) status(tb testing.TB, node string) string {
	tb.Helper()
	fields := strings.SplitN(a.parameter(tb, "bootstrap_status/"+node), "|", 5)
	if len(fields) != 5 {
		tb.Fatalf("status of %s: %q", node, fields)
	}
	return fields[0] + "|" + fields[1] + "|" + fields[4]
}

// want fails unless the cluster's control planes are these machines.
func (a *account) want(tb testing.TB, machines ...*machine) {
	tb.Helper()
	var members, want []string
	for line := range strings.Lines(a.read(tb, "cluster/members")) {
		id, _, _ := strings.Cut(line, ",")
		members = append(members, id)
	}
	for i, m := range machines {
		want = append(want, m.id)
		if got := a.parameter(tb, fmt.Sprintf("control_plane_joined/%d", i)); !strings.HasPrefix(got, "JOINED:"+m.id+":") {
			tb.Errorf("slot %d is %s, want JOINED by %s", i, got, m.id)
		}
		if got := a.status(tb, fmt.Sprintf("control-plane-%d", i)); !strings.HasPrefix(got, "DONE|done|control plane ip-") {
			tb.Errorf("status of control-plane-%d is %s", i, got)
		}
	}
	slices.Sort(members)
	slices.Sort(want)
	if diff := cmp.Diff(want, members); diff != "" {
		tb.Errorf("members of etcd (-want +got):\n%s", diff)
	}
	if made := a.events(tb, "initialized"); len(made) != 1 {
		tb.Errorf("clusters made: %q, want one", made)
	}
	if overlaps := a.events(tb, "overlap"); len(overlaps) > 0 {
		tb.Errorf("two joined at once: %q", overlaps)
	}
}

// together runs machines at once and returns their exit codes.
func together(tb testing.TB, machines ...*machine) []int {
	tb.Helper()
	codes := make([]int, len(machines))
	done := make(chan struct{})
	for i, m := range machines {
		go func() {
			codes[i] = m.run(tb)
			done <- struct{}{}
		}()
	}
	for range machines {
		<-done
	}
	return codes
}

func TestMachinesMakeOneCluster(t *testing.T) {
	t.Parallel()
	a := newAccount(t, 3)
	nodes := []*machine{
		a.start(t, "control-plane", 0, "i-0a", "10.0.0.10"),
		a.start(t, "control-plane", 1, "i-0b", "10.0.0.11"),
		a.start(t, "control-plane", 2, "i-0c", "10.0.0.12"),
		a.start(t, "worker", 0, "i-0d", "10.0.0.20"),
	}
	if codes := together(t, nodes...); !slices.Equal(codes, []int{0, 0, 0, 0}) {
		t.Errorf("exit codes %v", codes)
	}
	a.want(t, nodes[:3]...)
	if got, want := a.events(t, "init", "join"), []string{"i-0a init", "i-0b join", "i-0c join"}; !slices.Equal(got, want) {
		t.Errorf("order is %q, want %q", got, want)
	}
	if got := a.events(t, "join-worker"); !slices.Equal(got, []string{"i-0d join-worker"}) {
		t.Errorf("workers: %q", got)
	}
	if got := a.status(t, "worker-i-0d"); got != "DONE|done|worker ip-10-0-0-20" {
		t.Errorf("status of the worker is %s", got)
	}
	hash := a.parameter(t, "ca_cert_hash")
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(hash) {
		t.Errorf("hash of the CA is %s", hash)
	}
	if got := a.parameter(t, "cluster_state"); got != "READY:uid:"+hash {
		t.Errorf("state is %s", got)
	}
	if got := a.parameter(t, "k8s_api_endpoint"); got != "api.example.com:6443" {
		t.Errorf("endpoint is %s", got)
	}
	kubeconfig, err := base64.StdEncoding.DecodeString(a.parameter(t, "admin_kubeconfig"))
	if err != nil || string(kubeconfig) != "kubeconfig of kubeopera-admin\n" {
		t.Errorf("kubeconfig is %q, %v", kubeconfig, err)
	}
	if hosts := a.read(t, "i-0a/etc/hosts"); hosts != "127.0.0.1 localhost\n" {
		t.Errorf("/etc/hosts was left as\n%s", hosts)
	}
	var order []string
	for line := range strings.Lines(a.read(t, "puts")) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "i-0a /kubeopera/test/"), "=")
		if slices.Contains([]string{ParameterAdminKubeconfig, ParameterCACertHash, ParameterJoinToken, ParameterAPIEndpoint, ParameterCertificateKey, ParameterClusterState}, name) {
			order = append(order, name)
		}
	}
	if diff := cmp.Diff([]string{
		ParameterClusterState, ParameterCACertHash, ParameterJoinToken, ParameterCertificateKey, ParameterAPIEndpoint, ParameterAdminKubeconfig, ParameterClusterState,
	}, order); diff != "" {
		t.Errorf("order of publication (-want +got):\n%s", diff)
	}
}

// With what a cluster gets beside kubeadm's own parts, each verified by its sum.
func TestMachinesInstallAddons(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("tar"); err != nil {
		t.Fatal(err)
	}
	a := newAccount(t, 1)
	writeFile(t, filepath.Join(a.dir, "archive/driver-1/deploy/kubernetes/base/node.yaml"), "kind: DriverNode\n")
	archive := exec.CommandContext(t.Context(), "tar", "-czf", filepath.Join(a.dir, "driver.tar.gz"), "-C", filepath.Join(a.dir, "archive"), "driver-1")
	if output, err := archive.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	const crds, operator = "https://example.com/crds.yaml", "https://example.com/operator.yaml"
	addons := "KUBEOPERA_ADDONS=\"calico cloud-controller-manager ebs-csi\"\n" +
		"CALICO_CRDS_URL=" + crds + "\nCALICO_CRDS_SHA256=" + sum(crds) + "\n" +
		"CALICO_OPERATOR_URL=" + operator + "\nCALICO_OPERATOR_SHA256=" + sum(operator) + "\n" +
		"EBS_CSI_URL=https://example.com/driver.tar.gz\nEBS_CSI_SHA256=" + sum(sum("kind: DriverNode\n")+"  node.yaml\n") + "\n"
	node, worker := a.start(t, "control-plane", 0, "i-0a", "10.0.0.10"), a.start(t, "worker", 0, "i-0d", "10.0.0.20")
	node.extra, worker.extra = addons, addons
	if codes := together(t, node, worker); !slices.Equal(codes, []int{0, 0}) {
		t.Errorf("exit codes %v", codes)
	}
	a.want(t, node)
	applied := a.read(t, "applied")
	for _, kind := range []string{"Installation", "DaemonSet", "Kustomization", "DriverNode", "ClusterRoleBinding"} {
		if !strings.Contains(applied, "i-0a applied "+kind+"\n") {
			t.Errorf("no %s was applied:\n%s", kind, applied)
		}
	}

	b := newAccount(t, 1)
	other := b.start(t, "control-plane", 0, "i-0a", "10.0.0.10")
	other.extra = addons + "CALICO_OPERATOR_SHA256=" + sum("another") + "\n"
	if code := other.run(t); code != 3 {
		t.Errorf("exit code %d, want 3: the file is not what it should be", code)
	}
	if got := b.status(t, "control-plane-0"); got != "FAILED|network|https://example.com/operator.yaml does not have the sum of versions.env" {
		t.Errorf("status is %s", got)
	}
}

func TestMachinesRenewWhatExpires(t *testing.T) {
	t.Parallel()
	a := newAccount(t, 3)
	first, second := a.start(t, "control-plane", 0, "i-0a", "10.0.0.10"), a.start(t, "control-plane", 1, "i-0b", "10.0.0.11")
	if codes := together(t, first, second); !slices.Equal(codes, []int{0, 0}) {
		t.Fatalf("exit codes %v", codes)
	}
	token := a.parameter(t, "join_token")
	// Time goes by. The third is not there, so that the shared certificates are wanted.
	for _, stamp := range []string{"token-published", "certificates-uploaded"} {
		writeFile(t, filepath.Join(first.root, "var/lib/kubeopera", stamp), "0")
	}
	for _, m := range []*machine{second, first, first} {
		if code := m.script(t, "refresh.sh"); code != 0 {
			t.Errorf("%s: exit code %d", m.id, code)
		}
	}
	if a.parameter(t, "join_token") == token {
		t.Error("the token was not renewed")
	}
	want := []string{"i-0b renewed", "i-0a renewed", "i-0a upload-certs", "i-0a renewed"}
	if got := a.events(t, "renewed", "upload-certs"); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q: certificates on each, the rest by the first, once", got, want)
	}
	if puts := strings.Count(a.read(t, "puts"), "/join_token="); puts != 2 {
		t.Errorf("the token was written %d times, want at first and once more", puts)
	}
	a.want(t, first, second)

	// A failure is seen, and seen to be over.
	writeFile(t, filepath.Join(a.dir, "fail-renewal"), "")
	if code := first.script(t, "refresh.sh"); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if got := a.status(t, "control-plane-0"); got != "DONE|renew certificates|renewal failed: kubeadm certs: error: no key" {
		t.Errorf("status is %s", got)
	}
	if code := first.script(t, "refresh.sh"); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := a.status(t, "control-plane-0"); got != "DONE|renewal|renewed" {
		t.Errorf("status is %s", got)
	}
}

func TestMachinesThatStartTwice(t *testing.T) {
	t.Parallel()
	a := newAccount(t, 1)
	first, second := a.start(t, "control-plane", 0, "i-0a", "10.0.0.10"), a.start(t, "control-plane", 0, "i-0b", "10.0.0.11")
	codes := together(t, first, second)
	slices.Sort(codes)
	if !slices.Equal(codes, []int{0, 3}) {
		t.Errorf("exit codes %v, want one to make the cluster and one to give up", codes)
	}
	if made := a.events(t, "init"); len(made) != 1 {
		t.Errorf("clusters made: %q, want one", made)
	}
}

func TestMachineGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	a := newAccount(t, 1)
	node := a.start(t, "control-plane", 0, "i-0a", "10.0.0.10")
	writeFile(t, filepath.Join(a.dir, "fail-init"), "")
	if code := node.run(t); code != 1 {
		t.Errorf("exit code %d, want 1: to be run again", code)
	}
	if got, want := a.status(t, "control-plane-0"), "RUNNING|kubeadm init|attempt 1 failed: kubeadm init: [ERROR ImagePull]: failed to pull, token [redacted]"; got != want {
		t.Errorf("status is %q, want %q", got, want)
	}
	if code := node.run(t); code != 0 {
		t.Errorf("second run: exit code %d", code)
	}
	a.want(t, node)
	if got, want := a.events(t, "init", "reset"), []string{"i-0a init", "i-0a reset", "i-0a init"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	// The marker keeps the unit from starting again; if it did, nothing would change.
	if code := node.run(t); code != 0 {
		t.Errorf("third run: exit code %d", code)
	}
	a.want(t, node)
}

func TestMachineTakesOverFromOneThatIsGone(t *testing.T) {
	t.Parallel()
	a := newAccount(t, 1)
	first := a.start(t, "control-plane", 0, "i-0a", "10.0.0.10")
	writeFile(t, filepath.Join(a.dir, "fail-init"), "")
	if code := first.run(t); code != 1 {
		t.Fatalf("exit code %d, want 1", code)
	}
	first.terminate(t)
	second := a.start(t, "control-plane", 0, "i-0b", "10.0.0.11")
	if code := second.run(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	a.want(t, second)
}

func TestMachinesAreReplaced(t *testing.T) {
	t.Parallel()
	a := newAccount(t, 3)
	nodes := []*machine{
		a.start(t, "control-plane", 0, "i-0a", "10.0.0.10"),
		a.start(t, "control-plane", 1, "i-0b", "10.0.0.11"),
		a.start(t, "control-plane", 2, "i-0c", "10.0.0.12"),
	}
	if codes := together(t, nodes...); !slices.Equal(codes, []int{0, 0, 0}) {
		t.Fatalf("exit codes %v", codes)
	}
	// Two at once, the one that made the cluster among them. The second gets the
	// address of its predecessor.
	nodes[0].terminate(t)
	nodes[2].terminate(t)
	nodes[0] = a.start(t, "control-plane", 0, "i-1a", "10.0.0.13")
	nodes[2] = a.start(t, "control-plane", 2, "i-1c", "10.0.0.12")
	writeFile(t, filepath.Join(a.dir, "lost-nodes"), "ip-10-0-0-10\taws:///eu-west-1a/i-0a\n")
	if codes := together(t, nodes[0], nodes[2]); !slices.Equal(codes, []int{0, 0}) {
		t.Errorf("exit codes %v", codes)
	}
	a.want(t, nodes...)
	if events := a.read(t, "events"); !strings.Contains(events, "delete node ip-10-0-0-10") || strings.Contains(events, "delete node ip-10-0-0-11") {
		t.Errorf("nodes of lost machines are still there, or others are not:\n%s", events)
	}
}

func TestMachineRetriesAJoin(t *testing.T) {
	t.Parallel()
	a := newAccount(t, 3)
	first, second, third := a.start(t, "control-plane", 0, "i-0a", "10.0.0.10"), a.start(t, "control-plane", 1, "i-0b", "10.0.0.11"), a.start(t, "control-plane", 2, "i-0c", "10.0.0.12")
	if code := first.run(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	writeFile(t, filepath.Join(a.dir, "fail-join"), "")
	if code := second.run(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if got, want := a.status(t, "control-plane-1"), "RUNNING|kubeadm join|attempt 1 failed: kubeadm join: error execution phase etcd-join: etcdserver: too many learner members"; got != want {
		t.Errorf("status is %q, want %q", got, want)
	}
	if codes := together(t, second, third); !slices.Equal(codes, []int{0, 0}) {
		t.Errorf("exit codes %v", codes)
	}
	a.want(t, first, second, third)
}

func TestOnlyControlPlaneIsNotReplaced(t *testing.T) {
	t.Parallel()
	a := newAccount(t, 1)
	first := a.start(t, "control-plane", 0, "i-0a", "10.0.0.10")
	if code := first.run(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	first.terminate(t)
	second := a.start(t, "control-plane", 0, "i-0b", "10.0.0.11")
	if code := second.run(t); code != 3 {
		t.Errorf("exit code %d, want 3: it must not make another cluster", code)
	}
	if got := a.status(t, "control-plane-0"); !strings.HasPrefix(got, "FAILED|") || !strings.Contains(got, "its data is lost") {
		t.Errorf("status is %s", got)
	}
	if got := a.parameter(t, "control_plane_joined/0"); !strings.HasPrefix(got, "FAILED:i-0b:") {
		t.Errorf("slot is %s", got)
	}
}

func TestMachineRefusesAForeignKey(t *testing.T) {
	t.Parallel()
	a := newAccount(t, 1)
	node := a.start(t, "worker", 0, "i-0a", "10.0.0.10")
	node.env = []string{"FAKE_DOCKER_KEY=0000000000000000000000000000000000000000"}
	if code := node.run(t); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if got := a.status(t, "worker-i-0a"); !strings.HasPrefix(got, "FAILED|packages|key of https://download.docker.com") {
		t.Errorf("status is %s", got)
	}
}

func TestMachineGivesUp(t *testing.T) {
	t.Parallel()
	a := newAccount(t, 1)
	node := a.start(t, "control-plane", 0, "i-0a", "10.0.0.10")
	node.extra = "KUBEOPERA_MAX_ATTEMPTS=2\n"
	for _, want := range []int{1, 3} {
		writeFile(t, filepath.Join(a.dir, "fail-init"), "")
		if code := node.run(t); code != want {
			t.Errorf("exit code %d, want %d", code, want)
		}
	}
	if got := a.status(t, "control-plane-0"); !strings.HasPrefix(got, "FAILED|kubeadm init|kubeadm init: [ERROR ImagePull]") {
		t.Errorf("status is %s", got)
	}
}
