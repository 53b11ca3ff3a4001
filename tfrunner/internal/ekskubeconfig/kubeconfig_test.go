package ekskubeconfig

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/golden"
)

func cluster() Cluster {
	return Cluster{
		Name:          "acme-prod",
		Endpoint:      "https://0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com",
		CACertificate: base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("not a real one")})),
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
			if tt.options.Auth == api.KubeconfigAuthExecOnly && strings.Contains(string(got), "secret/") {
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
		want    error
	}{
		{"no name", edit(func(c *Cluster) { c.Name = "" }), execOnly, nil},
		{"an endpoint without TLS", edit(func(c *Cluster) { c.Endpoint = "http://example.org" }), execOnly, nil},
		{"an endpoint that is not known yet", edit(func(c *Cluster) { c.Endpoint = "" }), execOnly, nil},
		{"a CA that is no base64", edit(func(c *Cluster) { c.CACertificate = "-----BEGIN CERTIFICATE-----" }), execOnly, nil},
		{"a CA that is no certificate", edit(func(c *Cluster) { c.CACertificate = "aGVsbG8=" }), execOnly, nil},
		{"an embedded credential without one", cluster(), Options{}, nil},
		{"a token", cluster(), Options{Auth: api.KubeconfigAuthServiceAccount}, ErrNotYet},
		{"another exec plugin", cluster(), Options{Auth: api.KubeconfigAuthExecOnly, Exec: "sh"}, nil},
		{"another form", cluster(), Options{Auth: "password"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Build(tt.cluster, tt.options)
			if err == nil {
				t.Fatalf("no error, but:\n%s", got)
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}
