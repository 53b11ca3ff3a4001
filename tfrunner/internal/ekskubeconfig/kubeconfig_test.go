package ekskubeconfig

import (
	_ "embed"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/golden"
)

//go:embed testdata/ca.crt
var ca []byte

func cluster() Cluster {
	return Cluster{
		Name:          "acme-prod",
		Endpoint:      "https://0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com",
		CACertificate: base64.StdEncoding.EncodeToString(ca),
		Region:        "eu-west-1",
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	keys := Keys{AccessKeyID: "AKIAEXAMPLE", SecretAccessKey: "secret/with: yaml#signs"}
	session := keys
	session.SessionToken = "session=="
	tests := []struct {
		name    string
		options Options
	}{
		{"embedded-credential", Options{Keys: keys}},
		{"embedded-session", Options{Auth: api.KubeconfigAuthEmbedded, Keys: session}},
		{"exec-only", Options{Auth: api.KubeconfigAuthExecOnly, Keys: keys}},
		{"service-account-token", Options{Auth: api.KubeconfigAuthServiceAccount, Exec: ExecHelper, Keys: keys, Token: "header.claims-_.signature"}},
		{"token-helper", Options{Auth: api.KubeconfigAuthExecOnly, Exec: ExecHelper}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Build(cluster(), tt.options)
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, tt.name+".yaml", got)
			if _, err := clientcmd.RESTConfigFromKubeConfig(got); err != nil {
				t.Errorf("client-go does not take it: %v", err)
			}
			if tt.options.Auth != "" && tt.options.Auth != api.KubeconfigAuthEmbedded && strings.Contains(string(got), "secret/") {
				t.Error("the credential is in it")
			}
		})
	}
}

func TestBuild_refuses(t *testing.T) {
	t.Parallel()
	execOnly := Options{Auth: api.KubeconfigAuthExecOnly}
	edit := func(f func(*Cluster)) Cluster {
		c := cluster()
		f(&c)
		return c
	}
	tests := []struct {
		name    string
		cluster Cluster
		options Options
	}{
		{"no name", edit(func(c *Cluster) { c.Name = "" }), execOnly},
		{"an endpoint without TLS", edit(func(c *Cluster) { c.Endpoint = "http://example.org" }), execOnly},
		{"an endpoint that is not known yet", edit(func(c *Cluster) { c.Endpoint = "" }), execOnly},
		{"a CA that is no base64", edit(func(c *Cluster) { c.CACertificate = "-----BEGIN CERTIFICATE-----" }), execOnly},
		{"a CA that is no certificate", edit(func(c *Cluster) { c.CACertificate = "aGVsbG8=" }), execOnly},
		{"an embedded credential without one", cluster(), Options{}},
		{"a CA that is no X.509", edit(func(c *Cluster) {
			c.CACertificate = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))
		}), execOnly},
		{"a name that EKS does not allow", edit(func(c *Cluster) { c.Name = "acme; id" }), execOnly},
		{"a token without one", cluster(), Options{Auth: api.KubeconfigAuthServiceAccount}},
		{"a token of two lines", cluster(), Options{Auth: api.KubeconfigAuthServiceAccount, Token: "a\nb"}},
		{"another exec plugin", cluster(), Options{Auth: api.KubeconfigAuthExecOnly, Exec: "sh"}},
		{"another form", cluster(), Options{Auth: "password"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, err := Build(tt.cluster, tt.options); err == nil {
				t.Fatalf("no error, but:\n%s", got)
			}
		})
	}
}
