package kubemerge_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/provisioner/internal/cli/kubemerge"
)

func certificate(tb testing.TB) []byte {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// published is a kubeconfig of the platform.
func published(tb testing.TB, ca []byte, server, token string) []byte {
	tb.Helper()
	c := api.NewConfig()
	c.CurrentContext = "acme"
	c.Contexts["acme"] = &api.Context{Cluster: "acme", AuthInfo: "acme"}
	c.Clusters["acme"] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	c.AuthInfos["acme"] = &api.AuthInfo{Token: token}
	data, err := clientcmd.Write(*c)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

const theirs = `# by hand, do not touch
apiVersion: v1
kind: Config
x-my-tool: {a: 1} # kept
clusters:
  # the old one
  - name: old
    cluster: {server: "https://old", certificate-authority: rel/ca.pem}
users:
  - name: old
    user:
      exec: {apiVersion: client.authentication.k8s.io/v1, command: helper, interactiveMode: Never}
contexts:
  - name: old
    context: {cluster: old, user: old, namespace: team}
current-context: old
`

func TestMergeKeepsTheRest(t *testing.T) {
	t.Parallel()
	fresh := published(t, certificate(t), "https://acme", "t1")
	merged, name, err := kubemerge.Merge([]byte(theirs), fresh, kubemerge.Options{})
	if err != nil || name != "acme" {
		t.Fatalf("%s, %v", name, err)
	}
	for _, want := range []string{"# by hand, do not touch", "x-my-tool: {a: 1} # kept", "# the old one", "certificate-authority: rel/ca.pem", "namespace: team", "current-context: old", "server: https://acme"} {
		if !strings.Contains(string(merged), want) {
			t.Errorf("no %q in\n%s", want, merged)
		}
	}
	again, _, err := kubemerge.Merge(merged, fresh, kubemerge.Options{})
	if err != nil || string(again) != string(merged) {
		t.Errorf("merged again: %v\n%s", err, cmp.Diff(string(merged), string(again)))
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	ca, otherCA := certificate(t), certificate(t)
	fresh := published(t, ca, "https://acme", "t2")
	withAcme := func(edit func(*api.Config)) string {
		c, err := clientcmd.Load(published(t, ca, "https://acme", "t1"))
		if err != nil {
			t.Fatal(err)
		}
		c.CurrentContext = ""
		edit(c)
		data, err := clientcmd.Write(*c)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	tests := []struct {
		name     string
		existing string
		options  kubemerge.Options
		taken    bool
		wrong    bool // another error
		check    func(*api.Config) bool
	}{
		{"nothing there", "", kubemerge.Options{}, false, false, func(c *api.Config) bool {
			return c.CurrentContext == "acme" && c.AuthInfos["acme"].Token == "t2"
		}},
		{"comments only", "# mine\n", kubemerge.Options{}, false, false, func(c *api.Config) bool { return len(c.Clusters) == 1 }},
		{"null lists", "apiVersion: v1\nkind: Config\nclusters: null\nusers:\ncontexts: []\n", kubemerge.Options{}, false, false, func(c *api.Config) bool { return len(c.Contexts) == 1 }},
		{"JSON", `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"old","cluster":{"server":"https://old"}}]}`, kubemerge.Options{}, false, false, func(c *api.Config) bool { return len(c.Clusters) == 2 }},
		{"another name", theirs, kubemerge.Options{Name: "mine"}, false, false, func(c *api.Config) bool {
			return c.Contexts["mine"].Cluster == "mine" && c.Contexts["mine"].AuthInfo == "mine" && c.CurrentContext == "old"
		}},
		{"made current", theirs, kubemerge.Options{SetCurrent: true}, false, false, func(c *api.Config) bool { return c.CurrentContext == "acme" }},
		{"the same cluster, renewed, with what people set", withAcme(func(c *api.Config) {
			c.Contexts["acme"].Namespace = "team"
			c.Clusters["acme"].ProxyURL = "socks5://localhost:1"
		}), kubemerge.Options{}, false, false, func(c *api.Config) bool {
			return c.AuthInfos["acme"].Token == "t2" && c.Contexts["acme"].Namespace == "team" && c.Clusters["acme"].ProxyURL != ""
		}},
		{"the name of another server", withAcme(func(c *api.Config) { c.Clusters["acme"].Server = "https://other" }), kubemerge.Options{}, true, false, nil},
		{"the name of another CA", withAcme(func(c *api.Config) { c.Clusters["acme"].CertificateAuthorityData = otherCA }), kubemerge.Options{}, true, false, nil},
		{"the name of a user only", withAcme(func(c *api.Config) { delete(c.Clusters, "acme"); delete(c.Contexts, "acme") }), kubemerge.Options{}, true, false, nil},
		{"the name of a context of another cluster", withAcme(func(c *api.Config) { c.Contexts["acme"].Cluster = "other" }), kubemerge.Options{}, true, false, nil},
		{"a user that another cluster's context has", withAcme(func(c *api.Config) {
			c.Contexts["other"] = &api.Context{Cluster: "other", AuthInfo: "acme"}
		}), kubemerge.Options{}, true, false, nil},
		{"overwritten", withAcme(func(c *api.Config) { c.Clusters["acme"].Server = "https://other" }), kubemerge.Options{Overwrite: true}, false, false, func(c *api.Config) bool {
			return c.Clusters["acme"].Server == "https://acme" && c.AuthInfos["acme"].Token == "t2"
		}},
		{"no YAML", "\t:", kubemerge.Options{}, false, true, nil},
		{"no kubeconfig", "kind: Secret\napiVersion: v1\n", kubemerge.Options{}, false, true, nil},
		{"a name twice", "apiVersion: v1\nkind: Config\nusers:\n- {name: a, user: {token: x}}\n- {name: a, user: {token: y}}\n", kubemerge.Options{}, false, true, nil},
		{"two documents", theirs + "---\n" + theirs, kubemerge.Options{}, false, true, nil},
		{"a key twice", "apiVersion: v1\nkind: Config\nclusters: []\nclusters:\n- {name: old, cluster: {server: https://old}}\n", kubemerge.Options{}, false, true, nil},
		{"an alias to what is replaced", "apiVersion: v1\nkind: Config\nusers:\n- name: acme\n  user: &u {token: x}\n- name: b\n  user: *u\n", kubemerge.Options{Overwrite: true}, false, true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			merged, _, err := kubemerge.Merge([]byte(tt.existing), fresh, tt.options)
			if errors.Is(err, kubemerge.ErrTaken) != tt.taken || (err != nil) != (tt.taken || tt.wrong) {
				t.Fatalf("got %v\n%s", err, merged)
			}
			if err != nil {
				if strings.Contains(err.Error(), "t1") || strings.Contains(err.Error(), "t2") {
					t.Errorf("the error has a token: %v", err)
				}
				return
			}
			c, err := clientcmd.Load(merged)
			if err != nil || !tt.check(c) {
				t.Errorf("%v\n%s", err, merged)
			}
		})
	}
}

func TestMergeRefusesWhatIsNotFit(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]string{
		"empty":          "",
		"no context":     "apiVersion: v1\nkind: Config\n",
		"plain http":     string(published(t, certificate(t), "http://acme", "t")),
		"runs a program": strings.Replace(string(published(t, certificate(t), "https://acme", "t")), "token: t", "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}", 1),
	} {
		if _, _, err := kubemerge.Merge([]byte(theirs), []byte(fresh), kubemerge.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzMerge: whatever was there is there afterwards, but for what has the name.
func FuzzMerge(f *testing.F) {
	ca := certificate(f)
	fresh := published(f, ca, "https://acme", "t")
	f.Add([]byte(theirs), "acme", false, false)
	f.Add([]byte(theirs), "old", true, true)
	f.Add(published(f, ca, "https://acme", "old"), "acme", false, true)
	f.Add([]byte("apiVersion: v1\nkind: Config\npreferences: {colors: true}\nusers:\n- name: a\n  user: &x {token: y}\n- name: b\n  user: *x\n"), "a", true, false)
	f.Add([]byte(`{"kind":"Config","apiVersion":"v1","contexts":[{"name":"c","context":{"cluster":"","user":"","extensions":[{"name":"e","extension":{"k":1}}]}}]}`), "é: *", false, false)
	f.Fuzz(func(t *testing.T, existing []byte, name string, overwrite, current bool) {
		merged, got, err := kubemerge.Merge(existing, fresh, kubemerge.Options{Name: name, Overwrite: overwrite, SetCurrent: current})
		if err != nil {
			return
		}
		before, err := clientcmd.Load(existing)
		if err != nil {
			t.Fatal(err)
		}
		after, err := clientcmd.Load(merged)
		if err != nil {
			t.Fatalf("%v\n%s", err, merged)
		}
		if after.AuthInfos[got].Token != "t" || after.Clusters[got].Server != "https://acme" || after.Contexts[got].Cluster != got {
			t.Errorf("%q is not there:\n%s", got, merged)
		}
		if want := before.CurrentContext; !current && want != "" && after.CurrentContext != want || current && after.CurrentContext != got {
			t.Errorf("current context %q", after.CurrentContext)
		}
		for _, c := range []*api.Config{before, after} {
			delete(c.Clusters, got)
			delete(c.AuthInfos, got)
			delete(c.Contexts, got)
			c.CurrentContext = ""
		}
		if a, b := text(t, before), text(t, after); !reflect.DeepEqual(a, b) {
			t.Errorf("before\n%s\nafter\n%s", a, b)
		}
	})
}

func text(tb testing.TB, c *api.Config) string {
	tb.Helper()
	data, err := clientcmd.Write(*c)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

func TestMergeFile(t *testing.T) {
	t.Parallel()
	ca := certificate(t)
	fresh := published(t, ca, "https://acme", "t")
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, []byte(theirs), 0o644), os.Symlink("real", link)); err != nil {
		t.Fatal(err)
	}
	change, err := kubemerge.MergeFile(t.Context(), link, fresh, kubemerge.Options{}, now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kubemerge.Change{Context: "acme", Backup: target + ".20261130T090000Z.bak", Changed: true}, change); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if kept, err := os.ReadFile(change.Backup); err != nil || string(kept) != theirs {
		t.Errorf("backup: %v\n%s", err, kept)
	}
	for _, path := range []string{target, change.Backup} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	change, err = kubemerge.MergeFile(t.Context(), link, published(t, ca, "https://acme", "t2"), kubemerge.Options{}, now)
	if err != nil || change.Backup != target+".20261130T090000Z-2.bak" {
		t.Errorf("a second in the same moment: %+v, %v", change, err)
	}
	if change, err := kubemerge.MergeFile(t.Context(), link, published(t, ca, "https://acme", "t2"), kubemerge.Options{}, now); err != nil || change.Changed || change.Backup != "" {
		t.Errorf("nothing new: %+v, %v", change, err)
	}
	if _, err := kubemerge.MergeFile(t.Context(), target, published(t, ca, "https://other", "t"), kubemerge.Options{}, now); !errors.Is(err, kubemerge.ErrTaken) {
		t.Errorf("another cluster: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.lock")); err != nil || len(left) > 0 {
		t.Errorf("locks are left: %q, %v", left, err)
	}
}

// TestMergeFileSideBySide: nobody's entry is lost.
func TestMergeFileSideBySide(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "config")
	ca := certificate(t)
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		fresh := published(t, ca, "https://"+name, name)
		all.Go(func() {
			if _, err := kubemerge.MergeFile(t.Context(), path, fresh, kubemerge.Options{Name: name}, time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c, err := clientcmd.LoadFromFile(path)
	if err != nil || len(c.Clusters) != 5 || len(c.AuthInfos) != 5 || len(c.Contexts) != 5 {
		t.Errorf("%v: %+v", err, c)
	}
}
