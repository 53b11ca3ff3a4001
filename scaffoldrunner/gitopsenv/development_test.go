package gitopsenv_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/verify"
)

// own is a repository with a development tree of its own, whose habits are not
// those of the embedded one: ingress-nginx, external-dns as a Deployment, one
// kustomization that sets a namespace, secrets that are sealed already.
const own = `
-- clusters/development/infrastructure/external-dns.yaml --
# Ours.
apiVersion: apps/v1
kind: Deployment
metadata:
    name: external-dns
    namespace: kube-system
spec:
    template:
        spec:
            containers:
                - name: external-dns
                  image: registry.k8s.io/external-dns/external-dns:v0.23.0
                  args:
                      - --source=ingress
                      - --domain-filter=dev.corp.example # the zone
                      - --domain-filter=more.corp.example
                      - --zone-id-filter=Z0123456789ABCDEFGHIJ
                      - --txt-owner-id=corp-dev
-- clusters/development/infrastructure/nginx/release.yaml --
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: ingress-nginx
  namespace: kube-system
spec:   {interval: 1h,   chart: {spec: {chart: ingress-nginx}}}
-- clusters/development/database/kustomization.yaml --
namespace: data
namePrefix: corp-
resources: [secret.yaml, sealed.yaml, db.yaml]
-- clusters/development/database/secret.yaml --
apiVersion: v1
kind: Secret
metadata: {name: postgres, labels: {team: data}}
data:
  user: Y29ycA==
  password: aHVudGVyMi1ob3JzZQ==
  url: cG9zdGdyZXM6Ly9jb3JwOmh1bnRlcjItaG9yc2VAZGIvY29ycA==
-- clusters/development/database/sealed.yaml --
apiVersion: bitnami.com/v1alpha1
kind: SealedSecret
metadata: {name: rabbit}
spec:
  encryptedData: {erlang-cookie: QWdBYWJjZGVmZ2hpamts}
-- clusters/development/database/db.yaml --
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec: {serviceName: db}
-- clusters/development/cert-manager-config/issuer.yaml --
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: acme}
spec:
  acme:
    email: dev@corp.example
    solvers:
    - selector: {dnsZones: [dev.corp.example]}
      dns01: {route53: {region: us-east-2, hostedZoneID: Z0123456789ABCDEFGHIJ, role: "arn:aws:iam::123456789012:role/dns"}}
-- clusters/development/monitoring/nothing.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: x, namespace: y}
-- clusters/development/apps/kustomization.yaml --
resources:
- ../../../apps/shop/overlays/development
- ../../../apps/mail/base
- pull.yaml
-- clusters/development/apps/pull.yaml --
apiVersion: v1
kind: Secret
metadata: {name: pull, namespace: shop}
type: kubernetes.io/dockerconfigjson
stringData:
  .dockerconfigjson: '{"auths":{"registry.corp.example":{"auth":"ZGV2OmRldi1wYXNzd29yZA=="}}}'
-- apps/shop/base/kustomization.yaml --
resources: [shop.yaml]
-- apps/shop/base/shop.yaml --
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: shop}
spec:
  rules: [{host: www.dev.corp.example}, {host: dev.corp.example}]
  tls: [{hosts: [www.dev.corp.example, dev.corp.example], secretName: tls}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: shop}
spec:
  template:
    spec:
      containers:
      - {name: shop, image: "registry.corp.example/team/shop:1.2@sha256:0000000000000000000000000000000000000000000000000000000000000000"}
      - {name: proxy, image: envoyproxy/envoy:v1.33.0}
-- apps/shop/overlays/development/kustomization.yaml --
resources: [../../base]
-- apps/mail/base/kustomization.yaml --
resources: [mail.yaml]
-- apps/mail/base/mail.yaml --
apiVersion: v1
kind: Service
metadata: {name: mail, namespace: shop}
spec: {ports: [{port: 25}]}
`

func parseTree(text string) gitopsenv.Tree {
	tree := gitopsenv.Tree{}
	for _, file := range txtar.Parse([]byte(text)).Files {
		tree[file.Name] = file.Data
	}
	return tree
}

func TestRepositoryWithADevelopmentTreeOfItsOwn(t *testing.T) {
	t.Parallel()
	base := embedded(parseTree(own))
	s := &sealer{}
	env, err := gitopsenv.Complete(base, acme(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify.Verify(verify.Config{Base: base, Inputs: acme(), Environment: env}); err != nil {
		t.Fatal(err)
	}
	wantHosts := map[string][]string{"shop": {"acme.example.com", "www.acme.example.com"}}
	if diff := cmp.Diff(wantHosts, env.Hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"clusters/development/monitoring is no layer that is generated"}, env.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	registry := acme().Registry
	wantSecrets := []gitopsenv.Secret{
		{Namespace: "data", Name: "corp-postgres", Labels: map[string]string{"team": "data"}, Values: map[string]gitopsenv.Value{
			"user":     {{Text: "corp"}},
			"password": {{Password: "data/corp-postgres/password"}},
			"url":      {{Text: "postgres://corp:"}, {Password: "data/corp-postgres/password"}, {Text: "@db/corp"}},
		}},
		{Namespace: "data", Name: "corp-rabbit", Values: map[string]gitopsenv.Value{
			"erlang-cookie": {{Password: "data/corp-rabbit/erlang-cookie"}},
		}},
		{Namespace: "shop", Name: "pull", Type: "kubernetes.io/dockerconfigjson", Registry: &registry},
	}
	if diff := cmp.Diff(wantSecrets, env.Secrets); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if got := s.asked[0]; got.MetaNamespace != "" || got.MetaName != "postgres" {
		t.Errorf("the manifest is to say %q/%q, want the name before kustomize", got.MetaNamespace, got.MetaName)
	}
	want := map[string]string{
		"clusters/acme-prod/infrastructure/nginx/release.yaml": string(base.Repository["clusters/development/infrastructure/nginx/release.yaml"]),
		"clusters/acme-prod/infrastructure/external-dns.yaml": `# Ours.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: external-dns
  namespace: kube-system
spec:
  template:
    spec:
      containers:
      - name: external-dns
        image: registry.k8s.io/external-dns/external-dns:v0.23.0
        args:
        - --source=ingress
        - --domain-filter=acme.example.com
        - --txt-owner-id=kubeopera-acme-prod
        env:
        - name: AWS_DEFAULT_REGION
          value: eu-west-1
`,
		"clusters/acme-prod/cert-manager-config/issuer.yaml": `apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: acme}
spec:
  acme:
    email: ops@acme.example.com
    solvers:
    - selector: {dnsZones: [acme.example.com]}
      dns01: {route53: {region: eu-west-1}}
`,
		"clusters/acme-prod/cert-manager-config/kustomization.yaml": `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- issuer.yaml
`,
		"clusters/acme-prod/database/kustomization.yaml": `namespace: data
namePrefix: corp-
resources:
- db.yaml
- sealed-secrets/data.postgres.yaml
- sealed-secrets/data.rabbit.yaml
`,
		"apps/shop/overlays/acme-prod/kustomization.yaml": `apiVersion: kustomize.config.k8s.io/v1beta1
images:
- name: registry.corp.example/team/shop
  newName: registry.example.com/team/shop
kind: Kustomization
patches:
- path: ingress-hostname.yaml
  target:
    group: networking.k8s.io
    kind: Ingress
    name: shop
    version: v1
resources:
- ../../base
`,
		"apps/mail/overlays/acme-prod/kustomization.yaml": `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- ../../base
`,
	}
	for file, text := range want {
		if diff := cmp.Diff(text, string(env.Tree[file])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	for file := range env.Tree {
		if strings.HasPrefix(file, "clusters/acme-prod/monitoring/") || strings.HasSuffix(file, "acme-prod/database/secret.yaml") {
			t.Errorf("%s should not be there", file)
		}
	}
}

func TestDevelopmentTreesThatCannotBeCopied(t *testing.T) {
	t.Parallel()
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: ns}\nstringData:\n"
	for _, tt := range []struct {
		name string
		file string
		text string
		want string
	}{
		{"a value that cannot be made up", "apps/pull.yaml", secret + "  license: AAAA-BBBB\n", "license is neither a password nor made from one"},
		{"a private key", "apps/pull.yaml", secret + "  signing-secret: |\n    -----BEGIN PRIVATE KEY-----\n", "private key, which cannot be made up"},
		{"a sealed value that nobody knows", "database/sealed.yaml", "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: {name: s}\nspec: {encryptedData: {config: QUFB}}\n", "sealed for another cluster"},
		{"a generated secret", "apps/kustomization.yaml", "secretGenerator: [{name: g, namespace: ns, literals: [a=b]}]\nresources: [pull.yaml]\n", "made by a generator"},
		{"a base from elsewhere", "apps/kustomization.yaml", "resources: [pull.yaml, \"https://git.example.com/x\"]\n", "nothing is fetched"},
		{"a patch from elsewhere", "apps/kustomization.yaml", "resources: [pull.yaml]\npatches: [{path: \"https://example.com/p.yaml\", target: {kind: Secret}}]\n", "nothing is fetched"},
		{"a file outside the repository", "apps/kustomization.yaml", "resources: [pull.yaml, ../../../../etc]\n", "nothing is fetched"},
		{"what is not YAML", "apps/pull.yaml", "a: [", "clusters/development/apps/pull.yaml"},
		{"a key twice", "apps/pull.yaml", "a: 1\na: 2\n", "already set in map"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := parseTree(own)
			tree["clusters/development/"+tt.file] = []byte(tt.text)
			_, err := gitopsenv.Complete(embedded(tree), acme(), &sealer{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
