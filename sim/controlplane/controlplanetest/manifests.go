package controlplanetest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	sigsyaml "sigs.k8s.io/yaml"
)

// Objects decodes every document of every manifest in a folder; unknown and
// repeated fields are errors.
func Objects(tb testing.TB, manifests fs.FS) []runtime.Object {
	tb.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	files, err := fs.Glob(manifests, "*.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	var all []runtime.Object
	for _, file := range files {
		if path.Base(file) == "kustomization.yaml" {
			continue
		}
		data, err := fs.ReadFile(manifests, file)
		if err != nil {
			tb.Fatal(err)
		}
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				tb.Fatal(err)
			}
			object, _, err := decoder.Decode(document, nil, nil)
			if err != nil {
				tb.Fatalf("%s: %v", file, err)
			}
			all = append(all, object)
		}
	}
	return all
}

// Only gives the objects of one type, of which there is at least one.
func Only[T runtime.Object](tb testing.TB, objects []runtime.Object) []T {
	tb.Helper()
	var out []T
	for _, o := range objects {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		tb.Fatalf("no %T", *new(T))
	}
	return out
}

// Install creates every object, namespaces first.
func Install(tb testing.TB, config *rest.Config, objects []runtime.Object) {
	tb.Helper()
	client := dynamic.NewForConfigOrDie(config)
	groups, err := restmapper.GetAPIGroupResources(kubernetes.NewForConfigOrDie(config).Discovery())
	if err != nil {
		tb.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, namespaces := range []bool{true, false} {
		for _, o := range objects {
			kinds, _, err := scheme.Scheme.ObjectKinds(o)
			if err != nil {
				tb.Fatal(err)
			}
			if (kinds[0].Kind == "Namespace") != namespaces {
				continue
			}
			mapping, err := mapper.RESTMapping(kinds[0].GroupKind(), kinds[0].Version)
			if err != nil {
				tb.Fatal(err)
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				tb.Fatal(err)
			}
			u := &unstructured.Unstructured{Object: content}
			u.SetGroupVersionKind(kinds[0])
			var target dynamic.ResourceInterface = client.Resource(mapping.Resource)
			if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
				target = client.Resource(mapping.Resource).Namespace(u.GetNamespace())
			}
			if _, err := target.Create(tb.Context(), u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
				tb.Fatalf("create %s %s: %v", kinds[0].Kind, u.GetName(), err)
			}
		}
	}
}

// As is a client with a token of a service account, bound to a pod if one is given.
func As(tb testing.TB, config *rest.Config, namespace, account string, pod *corev1.Pod) kubernetes.Interface {
	tb.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	admin := kubernetes.NewForConfigOrDie(config)
	token, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(tb.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token.Status.Token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// CheckKustomization fails unless a folder's kustomization names every manifest in it.
func CheckKustomization(tb testing.TB, manifests fs.FS) {
	tb.Helper()
	data, err := fs.ReadFile(manifests, "kustomization.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	var kustomization struct{ Resources []string }
	if err := sigsyaml.Unmarshal(data, &kustomization); err != nil {
		tb.Fatal(err)
	}
	files, err := fs.Glob(manifests, "*.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	want := slices.DeleteFunc(files, func(f string) bool { return f == "kustomization.yaml" })
	if got := slices.Sorted(slices.Values(kustomization.Resources)); !slices.Equal(got, want) {
		tb.Errorf("the kustomization has %v, the folder %v", got, want)
	}
}

// Environment are the variables that the ConfigMaps and the one Deployment among
// objects set, and where that mounts volumes.
func Environment(tb testing.TB, objects []runtime.Object) (env map[string]string, mounted []string) {
	tb.Helper()
	env = map[string]string{}
	for _, c := range Only[*corev1.ConfigMap](tb, objects) {
		maps.Copy(env, c.Data)
	}
	container := Only[*appsv1.Deployment](tb, objects)[0].Spec.Template.Spec.Containers[0]
	for _, e := range container.Env {
		env[e.Name] = e.Value
	}
	for _, m := range container.VolumeMounts {
		mounted = append(mounted, m.MountPath)
	}
	return env, mounted
}
