package kubeconfig_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/kubeconfig"
)

const canary = "canaryCANARYcanary"

// pair is a self-signed certificate and its key, PEM.
func pair(tb testing.TB) (cert, key []byte) {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// published is a kubeconfig as tfrunner writes it.
func published(tb testing.TB) *api.Config {
	tb.Helper()
	ca, _ := pair(tb)
	c := api.NewConfig()
	c.CurrentContext = "acme"
	c.Contexts["acme"] = &api.Context{Cluster: "acme", AuthInfo: "acme"}
	c.Clusters["acme"] = &api.Cluster{Server: "https://ABC.gr7.eu-west-1.eks.amazonaws.com", CertificateAuthorityData: ca}
	c.AuthInfos["acme"] = &api.AuthInfo{Exec: &api.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1beta1", Command: "aws", InteractiveMode: api.NeverExecInteractiveMode,
		Args: []string{"--region", "eu-west-1", "eks", "get-token", "--cluster-name", "acme", "--output", "json"},
		Env: []api.ExecEnvVar{
			{Name: "AWS_STS_REGIONAL_ENDPOINTS", Value: "regional"}, {Name: "AWS_ACCESS_KEY_ID", Value: "AKIAIOSFODNN7EXAMPLE"}, {Name: "AWS_SECRET_ACCESS_KEY", Value: canary},
		},
	}}
	return c
}

func write(tb testing.TB, c *api.Config) []byte {
	tb.Helper()
	data, err := clientcmd.Write(*c)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestCheckAccepts(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	const keyID = "AKIAIOSFODNN7EXAMPLE"
	eks := &kubeconfig.Exec{Cluster: "acme", Region: "eu-west-1", AccessKeyID: keyID, SecretAccessKey: canary}
	tests := []struct {
		name string
		edit func(*api.Config)
		exec *kubeconfig.Exec
	}{
		{"aws with a key", func(*api.Config) {}, eks},
		{
			"aws without a key", func(c *api.Config) { c.AuthInfos["acme"].Exec.Env = nil },
			&kubeconfig.Exec{Cluster: "acme", Region: "eu-west-1"},
		},
		{"token helper", func(c *api.Config) {
			e := c.AuthInfos["acme"].Exec
			e.Command, e.Args = "eks-token-helper", []string{"--region", "us-gov-west-1", "--cluster-name", "a_B-1"}
		}, &kubeconfig.Exec{Cluster: "a_B-1", Region: "us-gov-west-1", AccessKeyID: keyID, SecretAccessKey: canary}},
		{"token", func(c *api.Config) { c.AuthInfos["acme"] = &api.AuthInfo{Token: canary} }, nil},
		{"client certificate", func(c *api.Config) {
			c.AuthInfos["acme"] = &api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
		}, nil},
		{"two CA certificates", func(c *api.Config) {
			c.Clusters["acme"].CertificateAuthorityData = append(append([]byte{}, cert...), append(cert, '\n')...)
		}, eks},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := published(t)
			tt.edit(c)
			got, err := kubeconfig.Check(write(t, c))
			if err != nil {
				t.Fatal(err)
			}
			want := kubeconfig.Info{Server: c.Clusters["acme"].Server, CA: c.Clusters["acme"].CertificateAuthorityData, Exec: tt.exec}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("info (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	_, otherKey := pair(t)
	cluster := func(edit func(*api.Cluster)) func(*api.Config) {
		return func(c *api.Config) { edit(c.Clusters["acme"]) }
	}
	user := func(edit func(*api.AuthInfo)) func(*api.Config) {
		return func(c *api.Config) { edit(c.AuthInfos["acme"]) }
	}
	exec := func(edit func(*api.ExecConfig)) func(*api.Config) {
		return func(c *api.Config) { edit(c.AuthInfos["acme"].Exec) }
	}
	tests := []struct {
		name string
		edit func(*api.Config)
		want string
	}{
		{"no context", func(c *api.Config) { c.CurrentContext = "" }, "current-context: names no context"},
		{"unknown context", func(c *api.Config) { c.CurrentContext = "other" }, "current-context: names no context"},
		{"no cluster", func(c *api.Config) { c.Clusters = nil }, "its cluster is missing"},
		{"no user", func(c *api.Config) { c.AuthInfos = nil }, "its user is missing"},
		{"http", cluster(func(c *api.Cluster) { c.Server = "http://x" }), `cluster "acme": server must be an https URL`},
		{"no server", cluster(func(c *api.Cluster) { c.Server = "" }), "server must be an https URL"},
		{"password in the server", cluster(func(c *api.Cluster) { c.Server = "https://u:" + canary + "@x" }), "server must be an https URL"},
		{"insecure", cluster(func(c *api.Cluster) { c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil }), "insecure-skip-tls-verify is refused"},
		{"CA file", cluster(func(c *api.Cluster) { c.CertificateAuthority = "/etc/passwd" }), "certificate-authority is a file"},
		{"proxy", cluster(func(c *api.Cluster) { c.ProxyURL = "http://" + canary }), "proxy-url is refused"},
		{"no CA", cluster(func(c *api.Cluster) { c.CertificateAuthorityData = nil }), "certificate-authority-data must be"},
		{"CA that is none", cluster(func(c *api.Cluster) { c.CertificateAuthorityData = []byte(canary) }), "certificate-authority-data must be"},
		{"key for a CA", cluster(func(c *api.Cluster) { c.CertificateAuthorityData = key }), "certificate-authority-data must be"},
		{"text after the CA", cluster(func(c *api.Cluster) { c.CertificateAuthorityData = append(append([]byte{}, cert...), canary...) }), "certificate-authority-data must be"},
		{"broken CA", cluster(func(c *api.Cluster) {
			c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
		}), "certificate-authority-data must be"},
		{"token file", user(func(u *api.AuthInfo) { *u = api.AuthInfo{TokenFile: "/etc/passwd"} }), "files are refused"},
		{"key file", user(func(u *api.AuthInfo) { *u = api.AuthInfo{ClientCertificate: "/a", ClientKey: "/b"} }), "files are refused"},
		{"auth provider", user(func(u *api.AuthInfo) { *u = api.AuthInfo{AuthProvider: &api.AuthProviderConfig{Name: "gcp"}} }), "auth-provider is refused"},
		{"password", user(func(u *api.AuthInfo) { *u = api.AuthInfo{Username: "admin", Password: canary} }), "username and password are refused"},
		{"impersonation", user(func(u *api.AuthInfo) { u.Impersonate = "system:admin" }), "impersonation is refused"},
		{"no credential", user(func(u *api.AuthInfo) { *u = api.AuthInfo{} }), "needs one of"},
		{"two credentials", user(func(u *api.AuthInfo) { u.Token = canary }), "needs one of"},
		{"token of two lines", user(func(u *api.AuthInfo) { *u = api.AuthInfo{Token: canary + "\nx"} }), "the token holds bytes"},
		{"another's key", user(func(u *api.AuthInfo) { *u = api.AuthInfo{ClientCertificateData: cert, ClientKeyData: otherKey} }), "are no pair"},
		{"another program", exec(func(e *api.ExecConfig) { e.Command = "/tmp/aws" }), "exec is not one of the commands"},
		{"shell", exec(func(e *api.ExecConfig) { e.Command, e.Args = "sh", []string{"-c", canary} }), "exec is not one of the commands"},
		{"more arguments", exec(func(e *api.ExecConfig) { e.Args = append(e.Args, "--endpoint-url", "http://x") }), "exec is not one of the commands"},
		{"other arguments", exec(func(e *api.ExecConfig) { e.Args[0] = "--endpoint-url" }), "exec is not one of the commands"},
		{"cluster that is an option", exec(func(e *api.ExecConfig) { e.Args[5] = "--debug" }), "region or cluster name"},
		{"region that is none", exec(func(e *api.ExecConfig) { e.Args[1] = "eu-west-1/../x" }), "region or cluster name"},
		{"old exec API", exec(func(e *api.ExecConfig) { e.APIVersion = "client.authentication.k8s.io/v1alpha1" }), "unknown apiVersion"},
		{"interactive", exec(func(e *api.ExecConfig) { e.InteractiveMode = api.AlwaysExecInteractiveMode }), "input"},
		{"library path", exec(func(e *api.ExecConfig) { e.Env = append(e.Env, api.ExecEnvVar{Name: "LD_PRELOAD", Value: canary}) }), "environment variable that the platform does not publish"},
		{"endpoint", exec(func(e *api.ExecConfig) { e.Env[0].Value = canary }), "something else than regional"},
		{"variable twice", exec(func(e *api.ExecConfig) { e.Env = append(e.Env, e.Env[1]) }), "twice"},
		{"problem beside the current context", func(c *api.Config) { c.AuthInfos["other"] = &api.AuthInfo{TokenFile: "/etc/passwd"} }, `user "other": files are refused`},
		{"several problems", func(c *api.Config) {
			c.Clusters["acme"].Server, c.AuthInfos["acme"].Exec.Command = "x", canary
		}, `cluster "acme": server must be an https URL; user "acme": exec is not one of the commands that the platform publishes`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := published(t)
			tt.edit(c)
			_, err := kubeconfig.Check(write(t, c))
			if !errors.Is(err, kubeconfig.ErrRefused) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error holds a value: %v", err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	twice := "apiVersion: v1\nkind: Config\nusers: [{name: a, user: {token: " + canary + "}}, {name: a, user: {token: x}}]\n"
	for name, data := range map[string]string{
		"no YAML": "{" + canary, "another kind": "apiVersion: v1\nkind: Secret\ndata: {a: " + canary + "}\n", "a user twice": twice,
		"a list": "[" + canary + "]", "too much": strings.Repeat("#", 1<<20+1), "another type": "apiVersion: v1\nkind: Config\nclusters: " + canary + "\n",
	} {
		if _, err := kubeconfig.Parse([]byte(data)); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := kubeconfig.Redact([]byte(data)); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: redact gives %v", name, err)
		}
		if _, err := kubeconfig.Check([]byte(data)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := kubeconfig.Check(nil); !errors.Is(err, kubeconfig.ErrRefused) {
		t.Errorf("empty: got %v", err)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	_, key := pair(t)
	c := published(t)
	c.Clusters["acme"].ProxyURL = "http://u:" + canary + "@proxy"
	c.AuthInfos["all"] = &api.AuthInfo{
		Token: canary, Username: canary, Password: canary, ClientKeyData: key,
		AuthProvider: &api.AuthProviderConfig{Name: "oidc", Config: map[string]string{"refresh-token": canary}},
		Exec:         &api.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "login", Args: []string{"--password", canary}, InteractiveMode: api.NeverExecInteractiveMode},
	}
	got, err := kubeconfig.Redact(write(t, c))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{canary, base64.StdEncoding.EncodeToString(key), "AKIAIOSFODNN7EXAMPLE"} {
		if strings.Contains(string(got), secret) {
			t.Errorf("%q is left in\n%s", secret, got)
		}
	}
	for _, kept := range []string{"https://ABC.gr7.eu-west-1.eks.amazonaws.com", "current-context: acme", "get-token", "AWS_SECRET_ACCESS_KEY", "[redacted]"} {
		if !strings.Contains(string(got), kept) {
			t.Errorf("%q is missing in\n%s", kept, got)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(write(f, published(f)))
	f.Add([]byte("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: https://x, insecure-skip-tls-verify: true}}]\n"))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Add([]byte(`{"kind":"Config","users":[{"name":"u","user":{"token":"t","exec":{"command":"aws","args":["a"]}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := kubeconfig.Check(data)
		redacted, rerr := kubeconfig.Redact(data)
		if err == nil && rerr != nil {
			t.Errorf("accepted, but not to be redacted: %v", rerr)
		}
		if rerr == nil {
			c, err := kubeconfig.Parse(redacted)
			if err != nil {
				t.Fatalf("what was redacted does not parse: %v", err)
			}
			for _, u := range c.AuthInfos {
				if u.Token != "" && u.Token != "[redacted]" || len(u.ClientKeyData) > 0 && string(u.ClientKeyData) != "[redacted]" {
					t.Errorf("a secret is left in %s", redacted)
				}
			}
		}
		if err != nil {
			return
		}
		if !strings.HasPrefix(strings.ToLower(info.Server), "https://") || len(info.CA) == 0 {
			t.Errorf("accepted with server %q and CA %q", info.Server, info.CA)
		}
		c, err := clientcmd.Load(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range c.AuthInfos {
			if u.TokenFile != "" || u.ClientKey != "" || u.ClientCertificate != "" || u.AuthProvider != nil {
				t.Errorf("accepted a user with a file or provider: %+v", u)
			}
		}
		for _, cl := range c.Clusters {
			if cl.InsecureSkipTLSVerify || cl.CertificateAuthority != "" {
				t.Errorf("accepted an insecure cluster: %+v", cl)
			}
		}
	})
}
