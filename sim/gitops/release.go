package gitops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaultTimeout is helm-controller's for an installation.
const defaultTimeout = 5 * time.Minute

// release is a HelmRelease and what it asks for.
type release struct {
	object *unstructured.Unstructured
	key    client.ObjectKey
}

func newRelease(o *unstructured.Unstructured) release {
	return release{object: o, key: client.ObjectKeyFromObject(o)}
}

// text is a string of the object, or empty.
func (r release) text(path ...string) string {
	value, _, _ := unstructured.NestedString(r.object.Object, path...)
	return value
}

// value is one of the chart's values, or fallback.
func (r release) value(fallback string, path ...string) string {
	value, found, _ := unstructured.NestedFieldNoCopy(r.object.Object, append([]string{"spec", "values"}, path...)...)
	if !found || value == nil || value == "" {
		return fallback
	}
	return fmt.Sprint(value)
}

func (r release) suspended() bool {
	suspended, _, _ := unstructured.NestedBool(r.object.Object, "spec", "suspend")
	return suspended
}

// chart is the chart's name; that of a chartRef is the referenced object's.
func (r release) chart() string {
	return cmp.Or(r.text("spec", "chart", "spec", "chart"), r.text("spec", "chartRef", "name"))
}

func (r release) version() string { return cmp.Or(r.text("spec", "chart", "spec", "version"), "*") }

// name of the release in Helm, by helm-controller's rule.
func (r release) name() string {
	if name := r.text("spec", "releaseName"); name != "" {
		return name
	}
	if target := r.text("spec", "targetNamespace"); target != "" {
		return target + "-" + r.key.Name
	}
	return r.key.Name
}

func (r release) releaseNamespace() string {
	return cmp.Or(r.text("spec", "targetNamespace"), r.key.Namespace)
}

func (r release) skipsCRDs() bool { return r.text("spec", "install", "crds") == "Skip" }

func (r release) timeout() time.Duration {
	if timeout, err := time.ParseDuration(cmp.Or(r.text("spec", "install", "timeout"), r.text("spec", "timeout"))); err == nil {
		return timeout
	}
	return defaultTimeout
}

// source is where the chart comes from.
func (r release) source() (key client.ObjectKey, kind string) {
	path := []string{"spec", "chart", "spec", "sourceRef"}
	if r.text("spec", "chartRef", "kind") != "" {
		path = []string{"spec", "chartRef"}
	}
	field := func(name string) string { return r.text(append(slices.Clone(path), name)...) }
	return client.ObjectKey{Namespace: cmp.Or(field("namespace"), r.key.Namespace), Name: field("name")}, field("kind")
}

func (r release) dependsOn() []client.ObjectKey {
	list, _, _ := unstructured.NestedSlice(r.object.Object, "spec", "dependsOn")
	var keys []client.ObjectKey
	for _, entry := range list {
		if fields, ok := entry.(map[string]any); ok {
			name, _, _ := unstructured.NestedString(fields, "name")
			namespace, _, _ := unstructured.NestedString(fields, "namespace")
			keys = append(keys, client.ObjectKey{Namespace: cmp.Or(namespace, r.key.Namespace), Name: name})
		}
	}
	return keys
}

// controller is the sealed-secrets controller that the chart's templates give for
// this release.
func (r release) controller() Controller {
	name := r.value(sealedSecretsChart, "nameOverride")
	full := r.value("", "fullnameOverride")
	if full == "" {
		full = r.name()
		if !strings.Contains(full, name) {
			full += "-" + name
		}
	}
	c := Controller{
		Namespace: r.value(r.releaseNamespace(), "namespace"),
		Name:      full,
		Labels:    map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/instance": r.name()},
		Image: r.value("docker.io", "image", "registry") + "/" + r.value("bitnami/sealed-secrets-controller", "image", "repository") +
			":" + r.value("0.39.1", "image", "tag"),
		proxier: r.value("true", "rbac", "serviceProxier", "create") == "true",
	}
	for _, option := range []struct{ flag, key string }{{"--key-ttl", "keyttl"}, {"--key-renew-period", "keyrenewperiod"}} {
		if value := r.value("", option.key); value != "" {
			c.Args = append(c.Args, option.flag+"="+value)
		}
	}
	return c
}
