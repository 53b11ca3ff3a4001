package verify_test

import (
	"crypto/rand"
	"encoding/pem"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bitnami-labs/sealed-secrets/pkg/crypto"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/platform"
	"github.com/kubeopera/platform/scaffoldrunner/seal"
	"github.com/kubeopera/platform/scaffoldrunner/verify"
)

var inputs = gitopsenv.Inputs{
	Environment: "acme-prod",
	Domain:      "acme.example.com",
	Region:      "eu-west-1",
	Email:       "ops@acme.example.com",
	Registry:    gitopsenv.Registry{Server: "registry.example.com", Username: "robot"},
}

var certificate = sync.OnceValue(func() *seal.Certificate {
	_, cert, err := crypto.GeneratePrivateKeyAndCert(4096, time.Hour, "")
	if err != nil {
		panic(err)
	}
	parsed, err := seal.ParseCertificate(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), time.Now())
	if err != nil {
		panic(err)
	}
	return parsed
})

// sealer is a new one: each is good for one tree.
func sealer(tb testing.TB) *seal.Sealer {
	tb.Helper()
	s, err := seal.New(seal.Config{Certificate: certificate(), DigestKey: "0123456789abcdef0123456789abcdef", RegistryPassword: "the-registry-password"})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// good is a sealed environment in a repository that has had it before.
var good = sync.OnceValue(func() gitopsenv.Environment {
	tb := &testing.T{}
	env, err := gitopsenv.Complete(gitopsenv.Base{Platform: platform.Tree()}, inputs, sealer(tb))
	if err != nil {
		panic(err)
	}
	return env
})

// config is what verifies the environment as if it were generated once more.
func config() verify.Config {
	env := good()
	before := env.Tree
	env.Tree = maps.Clone(before)
	return verify.Config{
		Base:        gitopsenv.Base{Repository: before, Platform: platform.Tree()},
		Inputs:      inputs,
		Environment: env,
		Certificate: certificate().Fingerprint,
	}
}

func TestAGoodTree(t *testing.T) {
	t.Parallel()
	if err := verify.Verify(config()); err != nil {
		t.Error(err)
	}
}

const (
	folder  = "clusters/acme-prod/"
	overlay = "apps/gateway/overlays/acme-prod/"
)

// replace changes a file of the tree, and fails if there was nothing to change.
func replace(file, old, text string) func(*testing.T, *verify.Config) {
	return func(t *testing.T, c *verify.Config) {
		t.Helper()
		data := string(c.Environment.Tree[file])
		if !strings.Contains(data, old) {
			t.Fatalf("%s has no %q", file, old)
		}
		c.Environment.Tree[file] = []byte(strings.ReplaceAll(data, old, text))
	}
}

func appendTo(file, text string) func(*testing.T, *verify.Config) {
	return func(_ *testing.T, c *verify.Config) {
		c.Environment.Tree[file] = []byte(string(c.Environment.Tree[file]) + text)
	}
}

func remove(files ...string) func(*testing.T, *verify.Config) {
	return func(_ *testing.T, c *verify.Config) {
		for _, file := range files {
			delete(c.Environment.Tree, file)
		}
	}
}

// Every mistake is found before it is pushed.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*testing.T, *verify.Config)
		rule   verify.Rule
		want   string
	}{
		{"a patch without its target", replace(overlay+"kustomization.yaml", "name: gateway\n", "name: gatewax\n"), verify.RuleHosts, "does the patch's target match?"},
		{"a patch of another path", replace(overlay+"ingress-hostname.yaml", "/spec/rules/0/host", "/spec/rules/0/hots"), verify.RuleHosts, "api.kubeopera.invalid"},
		{"a patch that is left out", replace(overlay+"kustomization.yaml", "path: ingress-hostname.yaml", "path: other.yaml"), verify.RuleBuild, "other.yaml"},
		{"a host of another domain", replace(overlay+"ingress-hostname.yaml", "api.acme.example.com", "api.acme.example.net"), verify.RuleHosts, "outside the domain"},
		{"an overlay that no layer has", replace(folder+"apps/kustomization.yaml", "- ../../../apps/gateway/overlays/acme-prod\n", ""), verify.RuleHosts, "no Ingress has the host api.acme.example.com"},
		{"a base in place of the overlay", replace(folder+"apps/kustomization.yaml", "apps/gateway/overlays/acme-prod", "apps/gateway/base"), verify.RulePlaceholder, "nobody's name"},
		{"a folder that is not there", replace(folder+"flux-system/gotk-sync.yaml", "path: ./clusters/acme-prod/database", "path: ./clusters/acme-prod/databases"), verify.RuleBuild, "no such folder"},
		{"YAML that does not parse", appendTo(folder+"database/postgres.yaml", "\tx"), verify.RuleYAML, ""},
		{"a key twice", appendTo(folder+"database/postgres.yaml", "---\napiVersion: v1\nkind: A\nkind: B\n"), verify.RuleYAML, "already set"},
		{"a layer that can be pruned", replace(folder+"flux-system/gotk-sync.yaml", "prune: disabled", "prune: enabled"), verify.RuleLayers, "can be pruned"},
		{"a layer that does not wait", replace(folder+"flux-system/gotk-sync.yaml", "  - name: infrastructure\n", "  - name: database\n"), verify.RuleLayers, "must wait for infrastructure"},
		{"a dependency that is not there", replace(folder+"flux-system/gotk-sync.yaml", "  - name: infrastructure\n", "  - name: infrastructure\n  - name: network\n"), verify.RuleLayers, "waits for network"},
		{"infrastructure that is only applied", replace(folder+"flux-system/gotk-sync.yaml", "  wait: true\n", ""), verify.RuleLayers, "must wait for what it installs"},
		{"layers that nothing leads to", replace(folder+"flux-system/kustomization.yaml", "- gotk-sync.yaml", "[]"), verify.RuleBuild, ""},
		{"no kustomization around the layers", remove(folder + "kustomization.yaml"), verify.RuleLayers, "outside of every layer"},
		{"a custom resource beside its chart", appendTo(folder+"infrastructure/cert-manager.yaml", "---\napiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata:\n  name: x\n"), verify.RuleLayers, "a layer that waits"},
		{"an object in two layers", appendTo(folder+"database/postgres.yaml", "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: kubeopera-data\n"), verify.RuleLayers, "is in database and in infrastructure"},
		{"external-dns of another domain", replace(folder+"infrastructure/external-dns.yaml", "acme.example.com", "other.example.com"), verify.RuleExternalDNS, "manages other.example.com"},
		{"external-dns of two domains", replace(folder+"infrastructure/external-dns.yaml", "- acme.example.com", "- acme.example.com\n    - b.example.com"), verify.RuleExternalDNS, "manages acme.example.com, b.example.com"},
		{"external-dns under another id", replace(folder+"infrastructure/external-dns.yaml", "kubeopera-acme-prod", "kubeopera-other"), verify.RuleExternalDNS, "another environment's id"},
		{"a secret in clear", appendTo(folder+"database/postgres.yaml", "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: x\n  namespace: other\nstringData:\n  a: b\n"), verify.RuleSecrets, "Secret other/x has its data in clear"},
		{"a secret that is generated", appendTo(folder+"database/kustomization.yaml", "secretGenerator:\n- name: x\n  namespace: other\n  literals: [a=b]\n"), verify.RuleSecrets, "has its data in clear"},
		{"a sealed secret that is gone", remove(folder + "database/sealed-secrets/kubeopera-data.postgres.yaml"), verify.RuleBuild, "kubeopera-data.postgres.yaml"},
		{"a sealed secret that is not listed", replace(folder+"database/kustomization.yaml", "- sealed-secrets/kubeopera-data.postgres.yaml\n", ""), verify.RuleDeletion, "SealedSecret kubeopera-data/postgres would be deleted"},
		{"a sealed secret under another name", replace(folder+"database/sealed-secrets/kubeopera-data.postgres.yaml", "name: postgres", "name: pg"), verify.RuleSecrets, "opens under no other"},
		{"a namespace that is set after sealing", appendTo(folder+"database/kustomization.yaml", "namespace: other\n"), verify.RuleSecrets, "opens under no other"},
		{"a name that is set after sealing", appendTo(folder+"database/kustomization.yaml", "nameSuffix: \"-2\"\n"), verify.RuleSecrets, "opens under no other"},
		{"a sealed secret for the whole cluster", replace(folder+"database/sealed-secrets/kubeopera-data.postgres.yaml", "  annotations:\n", "  annotations:\n    sealedsecrets.bitnami.com/cluster-wide: \"true\"\n"), verify.RuleSecrets, "sealed cluster-wide"},
		{"a value that is not sealed", replace(folder+"database/sealed-secrets/kubeopera-data.postgres.yaml", "  encryptedData:\n", "  encryptedData:\n    more: aHVudGVyMg==\n"), verify.RuleSecrets, "the value of more is not a sealed one"},
		{"template data", replace(folder+"database/sealed-secrets/kubeopera-data.postgres.yaml", "  template:\n", "  template:\n    data:\n      x: '{{ .password }}'\n"), verify.RuleSecrets, "which the controller executes"},
		{"another controller's secret", func(_ *testing.T, c *verify.Config) { c.Certificate = "other" }, verify.RuleSecrets, "another controller's certificate"},
		{"something to fill in", replace(folder+"cert-manager-config/cluster-issuer.yaml", "ops@acme.example.com", "CHANGE_ME@acme.example.com"), verify.RulePlaceholder, "spec.acme.email is a placeholder"},
		{"a variable", replace(folder+"cert-manager-config/cluster-issuer.yaml", "ops@acme.example.com", "${EMAIL}"), verify.RulePlaceholder, "spec.acme.email is a placeholder"},
		{"a namespace that is gone", replace(folder+"infrastructure/namespaces.yaml", "name: kubeopera-data", "name: kubeopera-date"), verify.RuleDeletion, "Namespace kubeopera-data would be deleted"},
		{"a database that is gone", replace(folder+"database/kustomization.yaml", "- postgres.yaml\n", ""), verify.RuleDeletion, "Cluster kubeopera-data/postgres would be deleted"},
		{"a layer that is gone", replace(folder+"flux-system/gotk-sync.yaml", "  name: database\n", "  name: databases\n"), verify.RuleDeletion, "Kustomization flux-system/database would be deleted"},
		{"a base that is changed", appendTo("apps/gateway/base/service.yaml", "# mine\n"), verify.RuleBase, "the base must stay"},
		{"a password of the development tree", appendTo(folder+"apps/environment.yaml", "  PASSWORD: development-postgres-password\n"), verify.RuleLeak, "a credential of the development tree"},
		{"the same in base64", appendTo(folder+"apps/environment.yaml", "  X: ZGV2ZWxvcG1lbnQtcG9zdGdyZXMtcGFzc3dvcmQ=\n"), verify.RuleLeak, "a credential of the development tree"},
		{"the same in a comment", appendTo(folder+"apps/environment.yaml", "# development-postgres-password\n"), verify.RuleLeak, "line 16 has a credential"},
		{"a registry password of the development tree", appendTo(folder+"apps/environment.yaml", "  X: development-registry-password\n"), verify.RuleLeak, "a credential of the development tree"},
		{"a hostname of the development tree", appendTo(folder+"apps/environment.yaml", "  X: http://api.dev.kubeopera.example/\n"), verify.RuleLeak, "the development hostname"},
		{"the e-mail address of the development tree", replace(folder+"cert-manager-config/cluster-issuer.yaml", "ops@acme.example.com", "platform@dev.kubeopera.example"), verify.RuleLeak, "e-mail address"},
		{"an access key", appendTo(folder+"apps/environment.yaml", "  X: AKIAIOSFODNN7EXAMPLE\n"), verify.RuleLeak, "a credential in clear"},
		{"a private key", appendTo(folder+"apps/environment.yaml", "  X: |\n    -----BEGIN EC PRIVATE KEY-----\n"), verify.RuleLeak, "a credential in clear"},
		{"a chart repository that has moved", replace(folder+"infrastructure/sealed-secrets.yaml", "https://bitnami.github.io", "https://bitnami-labs.github.io"), verify.RuleSource, "https://bitnami.github.io/sealed-secrets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := config()
			tt.change(t, &c)
			found := verify.Findings(c)
			matched := false
			for _, f := range found {
				matched = matched || f.Rule == tt.rule && strings.Contains(f.String(), tt.want)
			}
			if !matched {
				t.Errorf("found %v, want one of %s with %q", found, tt.rule, tt.want)
			}
			for _, secret := range []string{"postgres-password", "registry-password", "AKIA"} {
				if message := (&verify.Error{Findings: found}).Error(); strings.Contains(message, secret) {
					t.Errorf("the error repeats a credential: %s", message)
				}
			}
		})
	}
}

func TestDeletionsThatWereAskedFor(t *testing.T) {
	t.Parallel()
	c := config()
	replace(folder+"database/kustomization.yaml", "- postgres.yaml\n", "")(t, &c)
	c.AllowDeletion = true
	if err := verify.Verify(c); err != nil {
		t.Error(err)
	}
}

// The development tree's account, with a target repository that has one.
func TestAccountOfTheDevelopmentTree(t *testing.T) {
	t.Parallel()
	c := config()
	c.Base.Repository = maps.Clone(c.Base.Repository)
	maps.Copy(c.Base.Repository, platform.Tree())
	const file = "clusters/development/infrastructure/cert-manager.yaml"
	c.Base.Repository[file] = []byte(string(c.Base.Repository[file]) + "# arn:aws:iam::123456789012:role/x\n")
	maps.Copy(c.Environment.Tree, c.Base.Repository)
	if err := verify.Verify(c); err != nil {
		t.Fatal(err)
	}
	appendTo(folder+"infrastructure/cert-manager.yaml", "# 123456789012\n")(t, &c)
	var refused *verify.Error
	if err := verify.Verify(c); !errors.As(err, &refused) || refused.Findings[0].Rule != verify.RuleLeak || strings.Contains(err.Error(), "123456789012") {
		t.Errorf("error %v, want a leak that is not repeated", err)
	}
}

// The domain of an environment may be part of the development tree's, and the
// other way round.
func TestDomainsThatContainEachOther(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ domain, text, want string }{
		{"acme.dev.kubeopera.example", "", ""},
		{"acme.dev.kubeopera.example", "other.dev.kubeopera.example", "development hostname"},
		{"kubeopera.example", "", ""},
		{"kubeopera.example", "api.dev.kubeopera.example", "development hostname"},
	} {
		in := inputs
		in.Domain = tt.domain
		base := gitopsenv.Base{Platform: platform.Tree()}
		env, err := gitopsenv.Complete(base, in, sealer(t))
		if err != nil {
			t.Fatal(err)
		}
		c := verify.Config{Base: base, Inputs: in, Environment: env}
		appendTo(folder+"apps/environment.yaml", "  X: \""+tt.text+"\"\n")(t, &c)
		switch err := verify.Verify(c); {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.domain, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s with %s: %v, want %q", tt.domain, tt.text, err, tt.want)
		}
	}
}

// BenchmarkScaffold is a whole run without network: generate, seal with a key as
// controllers make it, verify. The goal is less than a second.
func BenchmarkScaffold(b *testing.B) {
	base := gitopsenv.Base{Platform: platform.Tree()}
	certificate()
	secrets := 0
	for b.Loop() {
		env, err := gitopsenv.Complete(base, inputs, sealer(b))
		if err != nil {
			b.Fatal(err)
		}
		if err := verify.Verify(verify.Config{Base: base, Inputs: inputs, Environment: env, Certificate: certificate().Fingerprint}); err != nil {
			b.Fatal(err)
		}
		secrets = len(env.Secrets)
	}
	b.ReportMetric(float64(secrets), "secrets")
}

// BenchmarkSeal seals one value of 32 bytes for a key of 4096 bits.
func BenchmarkSeal(b *testing.B) {
	key, _, err := crypto.GeneratePrivateKeyAndCert(4096, time.Hour, "")
	if err != nil {
		b.Fatal(err)
	}
	value := []byte(seal.Password())
	for b.Loop() {
		if _, err := crypto.HybridEncrypt(rand.Reader, &key.PublicKey, value, []byte("namespace/name")); err != nil {
			b.Fatal(err)
		}
	}
}
