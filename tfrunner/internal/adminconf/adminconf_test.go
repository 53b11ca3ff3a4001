package adminconf

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/kubeconfig"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/tfrunner/internal/adminconf/adminconftest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKubeconfig_keeps_ca_and_user_and_exchanges_the_server(t *testing.T) {
	t.Parallel()
	conf := adminconftest.New(t, "https://acme-0123.elb.eu-west-1.amazonaws.com:6443", nil)
	// What else is in it is nobody's business.
	conf.Config.Clusters["other"] = conf.Config.Clusters["kubernetes"].DeepCopy()
	conf.Config.Clusters["kubernetes"].TLSServerName = "elsewhere"
	admin, err := Parse(conf.Published(t) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"https://203.0.113.7:6443", "https://10.0.1.5:6443", "https://Acme-ABC.elb.eu-west-1.amazonaws.com:6443"} {
		data, err := admin.Kubeconfig("acme", server)
		if err != nil {
			t.Fatal(err)
		}
		info, err := kubeconfig.Check(data)
		if err != nil {
			t.Fatal(err)
		}
		if info.Server != server {
			t.Errorf("server %s, want %s", info.Server, server)
		}
		got, err := clientcmd.Load(data)
		if err != nil {
			t.Fatal(err)
		}
		from := conf.Config.AuthInfos["kubernetes-admin"]
		want := api.NewConfig()
		want.Clusters["acme"] = &api.Cluster{Server: server, CertificateAuthorityData: conf.Config.Clusters["kubernetes"].CertificateAuthorityData}
		want.AuthInfos["acme"] = &api.AuthInfo{ClientCertificateData: from.ClientCertificateData, ClientKeyData: from.ClientKeyData}
		want.Contexts["acme"] = &api.Context{Cluster: "acme", AuthInfo: "acme"}
		want.CurrentContext = "acme"
		if diff := cmp.Diff(normal(t, want), normal(t, got)); diff != "" {
			t.Errorf("kubeconfig (-want +got):\n%s", diff)
		}
	}
}

func normal(t *testing.T, c *api.Config) string {
	t.Helper()
	data, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestParse_refuses(t *testing.T) {
	t.Parallel()
	edited := func(edit func(user *api.AuthInfo, cluster *api.Cluster)) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			conf := adminconftest.New(t, "https://10.0.0.1:6443", nil)
			edit(conf.Config.AuthInfos["kubernetes-admin"], conf.Config.Clusters["kubernetes"])
			return conf.Published(t)
		}
	}
	text := func(s string) func(*testing.T) string { return func(*testing.T) string { return s } }
	tests := []struct {
		name  string
		value func(*testing.T) string
		says  string
	}{
		{"what is not base64", text("apiVersion: v1"), "not base64"},
		{"what is no kubeconfig", text(base64.StdEncoding.EncodeToString([]byte("canary: [\n"))), "cannot be read"},
		{"nothing", text(""), "no context"},
		{"a file instead of a key", edited(func(u *api.AuthInfo, _ *api.Cluster) {
			u.ClientKeyData, u.ClientKey = nil, "/etc/passwd"
		}), "files are refused"},
		{"a plugin that is not ours", edited(func(u *api.AuthInfo, _ *api.Cluster) {
			*u = api.AuthInfo{Exec: &api.ExecConfig{Command: "canary", APIVersion: "client.authentication.k8s.io/v1"}}
		}), "exec"},
		{"a plugin of EKS", edited(func(u *api.AuthInfo, _ *api.Cluster) {
			*u = api.AuthInfo{Exec: &api.ExecConfig{
				Command: "eks-token-helper", APIVersion: "client.authentication.k8s.io/v1",
				Args: []string{"--region", "eu-west-1", "--cluster-name", "acme"}, InteractiveMode: api.NeverExecInteractiveMode,
			}}
		}), "exec plugin"},
		{"a CA that is none", edited(func(_ *api.AuthInfo, c *api.Cluster) { c.CertificateAuthorityData = []byte("canary") }), "certificate-authority-data"},
		{"no verification", edited(func(_ *api.AuthInfo, c *api.Cluster) {
			c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true
		}), "insecure-skip-tls-verify"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(tt.value(t))
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "canary") {
				t.Errorf("error %v, want one with %q", err, tt.says)
			}
		})
	}
}

func TestKubeconfig_refuses_addresses_that_are_none(t *testing.T) {
	t.Parallel()
	admin, err := Parse(adminconftest.New(t, "https://10.0.0.1:6443", nil).Published(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"", "10.0.0.1:6443", "http://10.0.0.1:6443", "https://", "https://:6443", "https://u:p@host:6443", "https://host:6443/path", "https://host:6443?a=b", "https://ho st"} {
		if _, err := admin.Kubeconfig("acme", server); err == nil {
			t.Errorf("%q was taken for an API server's address", server)
		}
	}
	if _, err := admin.Kubeconfig("", "https://10.0.0.1:6443"); err == nil {
		t.Error("a cluster without a name was taken")
	}
}

func TestSecrets_cover_the_key_wherever_it_is_shown(t *testing.T) {
	t.Parallel()
	conf := adminconftest.New(t, "https://10.0.0.1:6443", nil)
	published := conf.Published(t)
	admin, err := Parse(published)
	if err != nil {
		t.Fatal(err)
	}
	data, err := admin.Kubeconfig("acme", "https://10.0.0.2:6443")
	if err != nil {
		t.Fatal(err)
	}
	r := redact.New(admin.Secrets()...)
	block, _ := pem.Decode([]byte(conf.Key))
	body := base64.StdEncoding.EncodeToString(block.Bytes)
	for name, text := range map[string]string{"the key": conf.Key, "the kubeconfig": string(data), "the published value": published} {
		shown := r.String(text)
		for _, secret := range []string{conf.Key, body[:60], base64.StdEncoding.EncodeToString([]byte(conf.Key))} {
			if strings.Contains(shown, secret) {
				t.Errorf("%s shows the key", name)
			}
		}
		if shown == text {
			t.Errorf("nothing of %s is hidden", name)
		}
	}

	conf.Config.AuthInfos["kubernetes-admin"] = &api.AuthInfo{Token: "a-token-of-the-admin"}
	if admin, err = Parse(conf.Published(t)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a-token-of-the-admin"}, admin.Secrets()); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // a client that is gone needs no answer
		}
	}
	tests := []struct {
		name      string
		handler   http.Handler
		foreign   bool // the CA is another one
		down      bool
		says      string
		untrusted bool
	}{
		{name: "ready", handler: answer(http.StatusOK, "ok")},
		{name: "not ready", handler: answer(http.StatusInternalServerError, "[-]etcd failed"), says: "status 500"},
		{name: "another server", handler: answer(http.StatusOK, "hello"), says: "not ready"},
		{name: "a redirect", handler: http.RedirectHandler("/elsewhere", http.StatusFound), says: "status 302"},
		{name: "a certificate of somebody else", handler: answer(http.StatusOK, "ok"), foreign: true, says: "certificate", untrusted: true},
		{name: "nobody there", handler: answer(http.StatusOK, "ok"), down: true, says: "refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(tt.handler)
			server.StartTLS()
			defer server.Close()
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			if tt.foreign {
				ca = nil
			}
			if tt.down {
				server.Close()
			}
			admin, err := Parse(adminconftest.New(t, "https://10.0.0.1:6443", ca).Published(t))
			if err != nil {
				t.Fatal(err)
			}
			data, err := admin.Kubeconfig("acme", server.URL)
			if err != nil {
				t.Fatal(err)
			}
			err = Probe(t.Context(), data)
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("error %v, want one with %q", err, tt.says)
			}
			if _, ok := errors.AsType[*UntrustedError](err); ok != tt.untrusted {
				t.Errorf("error %v; untrusted: %v", err, ok)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(adminconftest.New(f, "https://10.0.0.1:6443", nil).Published(f))
	f.Add("PENDING")
	f.Add("YXBpVmVyc2lvbjogdjEK")
	f.Fuzz(func(t *testing.T, value string) {
		admin, err := Parse(value)
		if err != nil {
			return
		}
		data, err := admin.Kubeconfig("acme", "https://10.0.0.2:6443")
		if err != nil {
			t.Fatalf("what was taken cannot be used: %v", err)
		}
		info, err := kubeconfig.Check(data)
		if err != nil || info.Server != "https://10.0.0.2:6443" || info.Exec != nil {
			t.Fatalf("info %+v, error %v", info, err)
		}
	})
}
