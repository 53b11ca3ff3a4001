package gitops

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// chartKind is a kind that a chart brings. Its objects may hold anything: nothing
// here acts on them.
type chartKind struct {
	group, version, kind, plural string
	cluster                      bool // not in namespaces
}

// chartKinds are those of the charts that a platform's tree has, by chart. The
// sealed-secrets chart brings upstream's own.
var chartKinds = map[string][]chartKind{
	"cert-manager": {
		{group: "cert-manager.io", version: "v1", kind: "ClusterIssuer", plural: "clusterissuers", cluster: true},
		{group: "cert-manager.io", version: "v1", kind: "Issuer", plural: "issuers"},
		{group: "cert-manager.io", version: "v1", kind: "Certificate", plural: "certificates"},
		{group: "cert-manager.io", version: "v1", kind: "CertificateRequest", plural: "certificaterequests"},
	},
	"cloudnative-pg": {
		{group: "postgresql.cnpg.io", version: "v1", kind: "Cluster", plural: "clusters"},
		{group: "postgresql.cnpg.io", version: "v1", kind: "Database", plural: "databases"},
		{group: "postgresql.cnpg.io", version: "v1", kind: "Pooler", plural: "poolers"},
		{group: "postgresql.cnpg.io", version: "v1", kind: "Backup", plural: "backups"},
		{group: "postgresql.cnpg.io", version: "v1", kind: "ScheduledBackup", plural: "scheduledbackups"},
	},
	"traefik": {
		{group: "traefik.io", version: "v1alpha1", kind: "IngressRoute", plural: "ingressroutes"},
		{group: "traefik.io", version: "v1alpha1", kind: "Middleware", plural: "middlewares"},
	},
	"rabbitmq-cluster-operator": {
		{group: "rabbitmq.com", version: "v1beta1", kind: "RabbitmqCluster", plural: "rabbitmqclusters"},
	},
}

// installChartCRDs installs what a chart brings and waits until it is served.
func (t *Target) installChartCRDs(ctx context.Context, chart string) error {
	options := envtest.CRDInstallOptions{ErrorIfPathMissing: true, MaxTime: crdTimeout}
	if chart == sealedSecretsChart {
		options.Paths = []string{t.config.Tools.sealedSecretsCRDs()}
	}
	for _, kind := range chartKinds[chart] {
		options.CRDs = append(options.CRDs, kind.definition())
	}
	if len(options.Paths)+len(options.CRDs) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	if _, err := envtest.InstallCRDs(t.config.ControlPlane.RESTConfig(), options); err != nil {
		return fmt.Errorf("kinds of chart %s: %w", chart, err)
	}
	return nil
}

func (k chartKind) definition() *apiextensionsv1.CustomResourceDefinition {
	scope := apiextensionsv1.NamespaceScoped
	if k.cluster {
		scope = apiextensionsv1.ClusterScoped
	}
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: k.plural + "." + k.group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: k.group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: k.kind, ListKind: k.kind + "List", Plural: k.plural, Singular: strings.ToLower(k.kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: k.version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}
