package node

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// environment is a container's, in the order in which it was set.
type environment struct {
	names  []string
	values map[string]string
}

func (e *environment) set(name, value string) {
	if _, exists := e.values[name]; !exists {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) get(name string) (string, bool) {
	value, ok := e.values[name]
	return value, ok
}

func (e *environment) list() []string {
	var list []string
	for _, name := range e.names {
		list = append(list, name+"="+e.values[name])
	}
	return list
}

// environment of a container: the image's, that of the API server's address,
// and the pod's, each over the one before.
func (c *container) environment(ctx context.Context, image Image) (*environment, error) {
	env := &environment{values: map[string]string{}}
	env.set("PATH", defaultPath)
	env.set("HOSTNAME", c.worker.hostname())
	env.set("HOME", "/")
	for _, name := range slices.Sorted(maps.Keys(image.Env)) {
		env.set(name, image.Env[name])
	}
	server := c.worker.node.server
	env.set("KUBERNETES_SERVICE_HOST", server.Hostname())
	env.set("KUBERNETES_SERVICE_PORT", server.Port())
	env.set("KUBERNETES_SERVICE_PORT_HTTPS", server.Port())
	env.set("KUBERNETES_PORT", "tcp://"+net.JoinHostPort(server.Hostname(), server.Port()))

	for _, from := range c.spec.EnvFrom {
		values, err := c.worker.envFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			env.set(from.Prefix+key, values[key])
		}
	}
	for _, v := range c.spec.Env {
		value, set := expand(v.Value, env.get), true
		if v.ValueFrom != nil {
			var err error
			if value, set, err = c.valueFrom(ctx, v.ValueFrom); err != nil {
				return nil, err
			}
		}
		if set {
			env.set(v.Name, value)
		}
	}
	return env, nil
}

// envFrom gives all values of a ConfigMap or Secret.
func (w *worker) envFrom(ctx context.Context, from corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		data, err := w.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		return text(data), err
	case from.SecretRef != nil:
		data, err := w.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
		return text(data), err
	default:
		return nil, nil
	}
}

func text(data map[string][]byte) map[string]string {
	values := map[string]string{}
	for key, value := range data {
		values[key] = string(value)
	}
	return values
}

// valueFrom gives one value, unless it is optional and not there.
func (c *container) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (value string, set bool, err error) {
	w := c.worker
	switch {
	case from.FieldRef != nil:
		value, err := w.field(from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err := w.resourceField(from.ResourceFieldRef, c.spec)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := w.configMap(ctx, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		return key(data, ref.Key, ref.Optional, "ConfigMap "+w.namespace+"/"+ref.Name)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := w.secret(ctx, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		return key(data, ref.Key, ref.Optional, "Secret "+w.namespace+"/"+ref.Name)
	default:
		return "", false, fmt.Errorf("source of an environment variable is not supported by the simulator")
	}
}

func key(data map[string][]byte, name string, optional *bool, object string) (string, bool, error) {
	value, ok := data[name]
	if !ok && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("couldn't find key %s in %s", name, object)
	}
	return string(value), ok, nil
}

// configMap reads a ConfigMap; one that is optional and missing is empty.
func (w *worker) configMap(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	object, err := w.node.client.CoreV1().ConfigMaps(w.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, missing("configmap", name, optional, err)
	}
	data := map[string][]byte{}
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, object.BinaryData)
	return data, nil
}

// secret reads a Secret; one that is optional and missing is empty.
func (w *worker) secret(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	object, err := w.node.client.CoreV1().Secrets(w.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, missing("secret", name, optional, err)
	}
	return object.Data, nil
}

func missing(kind, name string, optional *bool, err error) error {
	switch {
	case !apierrors.IsNotFound(err):
		return err
	case optional != nil && *optional:
		return nil
	default:
		return fmt.Errorf("%s %q not found", kind, name)
	}
}

// field gives a value of the downward API.
func (w *worker) field(path string) (string, error) {
	w.mu.Lock()
	meta := w.latest.ObjectMeta
	w.mu.Unlock()
	for prefix, values := range map[string]map[string]string{"metadata.labels": meta.Labels, "metadata.annotations": meta.Annotations} {
		if path == prefix {
			return formatMap(values), nil
		}
		if name, ok := strings.CutPrefix(path, prefix+"['"); ok {
			return values[strings.TrimSuffix(name, "']")], nil
		}
	}
	switch path {
	case "metadata.name":
		return w.name, nil
	case "metadata.namespace":
		return w.namespace, nil
	case "metadata.uid":
		return string(w.uid), nil
	case "spec.nodeName":
		return w.node.config.Name, nil
	case "spec.serviceAccountName":
		return w.pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return w.ip, nil
	case "status.hostIP", "status.hostIPs":
		return address, nil
	default:
		return "", fmt.Errorf("unsupported fieldPath: %s", path)
	}
}

// formatMap writes labels as the downward API does, one quoted pair a line.
func formatMap(values map[string]string) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, fmt.Sprintf("%s=%q", name, values[name]))
	}
	return strings.Join(lines, "\n")
}

// resourceField gives a request or limit of a container; what is not limited has
// the node's.
func (w *worker) resourceField(ref *corev1.ResourceFieldSelector, own *corev1.Container) (string, error) {
	spec := own
	if ref.ContainerName != "" {
		c, err := w.container(ref.ContainerName)
		if err != nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
		spec = c.spec
	}
	if spec == nil {
		return "", fmt.Errorf("resource %s needs a container's name", ref.Resource)
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	values := map[string]corev1.ResourceList{"limits": spec.Resources.Limits, "requests": spec.Resources.Requests}[kind]
	resource := corev1.ResourceName(name)
	quantity, ok := values[resource]
	if !ok && kind == "limits" {
		quantity = w.node.config.Capacity[resource]
	}
	divisor := ref.Divisor.DeepCopy()
	if resource == corev1.ResourceCPU {
		unit := int64(1000)
		if !divisor.IsZero() {
			unit = divisor.MilliValue()
		}
		return fmt.Sprint((quantity.MilliValue() + unit - 1) / unit), nil
	}
	unit := int64(1)
	if !divisor.IsZero() {
		unit = divisor.Value()
	}
	return fmt.Sprint((quantity.Value() + unit - 1) / unit), nil
}

// expand fills in $(NAME); $$ is a dollar sign, and an unknown name stays as it is.
func expand(input string, get func(string) (string, bool)) string {
	var out strings.Builder
	for i := 0; i < len(input); i++ {
		if input[i] != '$' || i+1 == len(input) {
			out.WriteByte(input[i])
			continue
		}
		switch input[i+1] {
		case '$':
			out.WriteByte('$')
			i++
		case '(':
			name, _, closed := strings.Cut(input[i+2:], ")")
			if !closed {
				out.WriteByte('$')
				continue
			}
			reference := "$(" + name + ")"
			if value, ok := get(name); ok {
				out.WriteString(value)
			} else {
				out.WriteString(reference)
			}
			i += len(reference) - 1
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}
