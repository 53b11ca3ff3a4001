package bootstrap

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
)

func TestRead_one_node(t *testing.T) {
	t.Parallel()
	const hex64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	tests := []struct {
		name         string
		join, status string
		instance     string // as Terraform knows it; empty: it does not
		want         api.NodeState
		says         string
		of           string // the instance that reported
	}{
		{"nothing yet", "PENDING", "PENDING", "", api.NodeWaiting, "has not reported yet", ""},
		{"at work", "PENDING", "RUNNING|packages|i-1|1764493200|", "", api.NodeWorking, "packages", "i-1"},
		{"at work, in words", "PENDING", "RUNNING|kubeadm_init|i-1|1764493200|attempt 2", "", api.NodeWorking, "kubeadm init: attempt 2", "i-1"},
		{"words that repeat the phase", "PENDING", "RUNNING|kubeadm init|i-1|1764493200|kubeadm init, attempt 2", "", api.NodeWorking, "kubeadm init, attempt 2", "i-1"},
		{"joining", "JOINING:i-1:1764493210", "RUNNING|kubeadm join|i-1|1764493200|", "", api.NodeJoining, "kubeadm join", "i-1"},
		{"joining without a status", "JOINING:i-1:1764493210", "PENDING", "", api.NodeJoining, "joining the cluster", "i-1"},
		{"done, but not joined", "PENDING", "DONE|done|i-1|1764493200|", "", api.NodeWorking, "done", "i-1"},
		{"joined", "JOINED:i-1:1764493210", "DONE|done|i-1|1764493200|", "", api.NodeJoined, "joined", "i-1"},
		{"joined, whatever came after", "JOINED:i-1:1764493210", "FAILED|token renewal|i-1|1764493300|no", "", api.NodeJoined, "joined", "i-1"},
		{"failed", "JOINING:i-1:1764493210", "FAILED|kubeadm join|i-1|1764493220|a|b: no route to host", "", api.NodeFailed, "failed: kubeadm join: a|b: no route to host", "i-1"},
		{"failed in the relay", "FAILED:i-1:1764493230:etcd: member is a learner", "RUNNING|kubeadm join|i-1|1764493220|", "", api.NodeFailed, "failed: kubeadm join: etcd: member is a learner", "i-1"},
		{"failed without a reason", "FAILED", "PENDING", "", api.NodeFailed, "failed", ""},
		{"failed in a phase without a reason", "PENDING", "FAILED|packages", "", api.NodeFailed, "failed: packages", ""},
		{"failed and tries again", "FAILED:i-1:1764493230:no", "RUNNING|packages|i-1|1764493300|", "", api.NodeWorking, "packages", "i-1"},
		{"given up and joins again", "JOINING:i-1:1764493330", "FAILED|kubeadm join|i-1|1764493300|", "", api.NodeJoining, "joining the cluster", "i-1"},
		{"of a predecessor that had joined", "JOINED:i-1:1764493210", "DONE|done|i-1|1764493200|", "i-2", api.NodeWaiting, "has not reported yet", ""},
		{"of a predecessor that had failed", "FAILED:i-1:1764493210:x", "RUNNING|packages|i-2|1764493200|", "i-2", api.NodeWorking, "packages", "i-2"},
		{"joined, as Terraform knows it", "JOINED:i-2:1764493210", "PENDING", "i-2", api.NodeJoined, "joined", "i-2"},
		{"unreadable", "yes", "RUNNING and running", "", api.NodeWaiting, "has not reported yet", ""},
		{"a status with half of its fields", "PENDING", "RUNNING|packages", "", api.NodeWorking, "packages", ""},
		{"a status without words", "PENDING", "RUNNING", "", api.NodeWorking, "at work", ""},
		{
			"a message with secrets", "PENDING",
			"FAILED|kubeadm join|i-1|1764493220|kubeadm join --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:" + hex64 + " --certificate-key " + hex64 + " " + strings.Repeat("QUJD", 40) + "==",
			"", api.NodeFailed,
			"failed: kubeadm join --token [redacted] --discovery-token-ca-cert-hash sha256:" + hex64 + " --certificate-key [redacted] [redacted]", "i-1",
		},
		{
			"a message with a key", "PENDING", "FAILED|kubeadm join|i-1|1764493220|cat: -----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\nIAKw\n-----END EC PRIVATE KEY-----\nand -----BEGIN PRIVATE KEY----- MHcCAQ",
			"", api.NodeFailed, "failed: kubeadm join: cat: [redacted] and [redacted]", "i-1",
		},
		{"a message of several lines", "PENDING", "RUNNING|packages|i-1|1764493220|one\r\n\x1b[31mtwo\t three ", "", api.NodeWorking, "packages: one [31mtwo three", "i-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Read(Layout{Prefix: "/p", ControlPlanes: 1, Instances: []string{tt.instance}}, map[string]string{
				"/p/control_plane_joined/0": tt.join, "/p/bootstrap_status/control-plane-0": tt.status,
			})
			want := []Node{{Node: api.Node{Name: "control-plane-0", State: tt.want, Message: tt.says}, Instance: tt.of}}
			if diff := cmp.Diff(want, c.Nodes); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

func values(state, kubeconfig string, joins ...string) map[string]string {
	v := map[string]string{"/kubeopera/acme/cluster_state": state, "/kubeopera/acme/admin_kubeconfig": kubeconfig}
	for i, join := range joins {
		v["/kubeopera/acme/control_plane_joined/"+strconv.Itoa(i)] = join
		v["/kubeopera/acme/bootstrap_status/control-plane-"+strconv.Itoa(i)] = "PENDING"
	}
	return v
}

func layout(n int) Layout { return Layout{Prefix: "/kubeopera/acme/", ControlPlanes: n} }

func TestRead_cluster(t *testing.T) {
	t.Parallel()
	without := func(v map[string]string, name string) map[string]string {
		delete(v, "/kubeopera/acme/"+name)
		return v
	}
	tests := []struct {
		name                       string
		n                          int
		values                     map[string]string
		published, complete, ready bool
		missing                    []string
		says                       string
	}{
		{name: "new", n: 1, values: values("PENDING", "PENDING", "PENDING"), says: "control-plane-0: has not reported yet"},
		{name: "initialising", n: 1, values: values("INIT:i-0:1764493200", "PENDING", "PENDING"), says: "control-plane-0: has not reported yet"},
		{name: "single", n: 1, values: values("READY:uid:hash", "YXBp\n", "JOINED:i-0:1"), published: true, complete: true, ready: true, says: "1 of 1 control-plane nodes joined"},
		{name: "joined without a kubeconfig", n: 1, values: values("READY:uid:hash", "PENDING", "JOINED:i-0:1"), ready: true, says: "1 of 1 control-plane nodes joined"},
		{
			name: "the second joins", n: 3, values: values("READY:uid:sha256:hash", "YXBp", "JOINED:i-0:1", "JOINING:i-1:1", "PENDING"), published: true, ready: true,
			says: "control-plane-1: joining the cluster (1 of 3 control-plane nodes joined)",
		},
		{name: "all", n: 3, values: values("READY:uid:hash", "YXBp", "JOINED:i-0:1", "JOINED:i-1:1", "JOINED:i-2:1"), published: true, complete: true, ready: true, says: "3 of 3 control-plane nodes joined"},
		{
			name: "the third failed while the second joins", n: 3, values: values("READY:uid:hash", "YXBp", "JOINED:i-0:1", "JOINING:i-1:1", "FAILED:i-2:1:no"), published: true, ready: true,
			says: "control-plane-2: failed: no (1 of 3 control-plane nodes joined)",
		},
		{
			name: "parameters are gone", n: 1, values: without(without(without(values("READY:u:h", "YXBp", "PENDING"), "admin_kubeconfig"), "control_plane_joined/0"), "bootstrap_status/control-plane-0"), ready: true,
			missing: []string{"/kubeopera/acme/control_plane_joined/0", "/kubeopera/acme/admin_kubeconfig"}, says: "control-plane-0: has not reported yet",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Read(layout(tt.n), tt.values)
			if c.Published() != tt.published || c.Complete() != tt.complete || c.Ready != tt.ready {
				t.Errorf("published %v, complete %v, ready %v", c.Published(), c.Complete(), c.Ready)
			}
			if diff := cmp.Diff(tt.missing, c.Missing); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.says, c.String()); diff != "" {
				t.Errorf("sentence (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add("JOINED:i-0123456789abcdef0:1764493200", "DONE|done|i-0123456789abcdef0|1764493200|", "READY:uid:sha256:00", "YXBp")
	f.Add("FAILED:i-1:1764493200:reason: with colons", "FAILED|kubeadm join|i-1|1764493200|a|b", "INIT:i-1:1764493200", "PENDING")
	f.Add("JOINING::-1", "RUNNING||||abcdef.0123456789abcdef\x00\xff"+strings.Repeat("€", 400), "", "")
	f.Fuzz(func(t *testing.T, join, status, state, kubeconfig string) {
		c := Read(layout(2), map[string]string{
			"/kubeopera/acme/control_plane_joined/0": join, "/kubeopera/acme/bootstrap_status/control-plane-0": status,
			"/kubeopera/acme/control_plane_joined/1": "PENDING", "/kubeopera/acme/bootstrap_status/control-plane-1": status,
			"/kubeopera/acme/cluster_state": state, "/kubeopera/acme/admin_kubeconfig": kubeconfig,
		})
		if len(c.Nodes) != 2 || c.Complete() {
			t.Fatalf("picture %+v", c)
		}
		if c.Nodes[0].State == api.NodeJoined && !strings.HasPrefix(join, "JOINED") {
			t.Errorf("%q made a member", join)
		}
		text := c.String()
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && unicode.IsControl(r) }) {
			t.Errorf("sentence %q", text)
		}
		if len(text) > 2*messageLimit+200 {
			t.Errorf("a sentence of %d bytes", len(text))
		}
		if bootstrapToken.MatchString(text) {
			t.Errorf("a token in %q", text)
		}
	})
}
