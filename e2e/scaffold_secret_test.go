package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/sim/gitops"
)

var listAll = metav1.ListOptions{}

// open gives the values of the Secrets that the controller has made of sealed ones.
func (s *scaffolding) open(t *testing.T) map[string]map[string]string {
	t.Helper()
	opened, err := platform.Opened(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// sealed are the manifests of sealed secrets of the newest commit, by their paths.
func (s *scaffolding) sealed(t *testing.T) map[string]string {
	t.Helper()
	sealed := map[string]string{}
	for path, data := range s.files(t, s.branch(t)) {
		if strings.Contains("\n"+string(data), "\nkind: SealedSecret\n") {
			sealed[path] = string(data)
		}
	}
	return sealed
}

func secretsMatch(t *testing.T, s *scaffolding, target *gitops.Target) {
	t.Helper()
	want := len(s.sealed(t))
	harness.Until(t, "every sealed secret is a Secret", func() (bool, error) {
		got := len(s.open(t))
		return got == want && want > 10, fmt.Errorf("%d of %d", got, want)
	})
	s.checkSecrets(t, target)
	s.opened = s.open(t)
}

// checkSecrets holds the Secrets against each other, against the request, and
// against what the workloads of the tree read.
func (s *scaffolding) checkSecrets(t *testing.T, target *gitops.Target) {
	t.Helper()
	opened := s.open(t)
	value := func(secret, key string) string {
		t.Helper()
		v := opened[secret][key]
		if len(v) < 9 || strings.Contains(v, "development") {
			t.Errorf("%s of %s has %d characters, or is of the development tree", key, secret, len(v))
		}
		return v
	}
	same := func(what, a, b string) {
		t.Helper()
		if a != b {
			t.Errorf("%s: %s differs from %s", what, a, b) // a failed test may show the values of a simulated cluster
		}
	}
	for _, login := range []string{"postgres", "rabbitmq"} {
		same("user of "+login, value("kubeopera-data/"+login, "username"), value("kubeopera-core/"+login, "username"))
		same("password of "+login, value("kubeopera-data/"+login, "password"), value("kubeopera-core/"+login, "password"))
	}
	if value("kubeopera-data/postgres", "password") == value("kubeopera-data/rabbitmq", "password") || value("kubeopera-data/rabbitmq", "erlang-cookie") == "" {
		t.Error("Postgres and RabbitMQ share a password")
	}
	login := map[string]any{"auths": map[string]any{"registry.acme.example.com": map[string]any{
		"username": "robot", "password": s.password, "auth": base64.StdEncoding.EncodeToString([]byte("robot:" + s.password)),
	}}}
	for _, namespace := range []string{"kubeopera-core", "kubeopera-provisioning", "kubeopera-builds"} {
		var got map[string]any
		if err := json.Unmarshal([]byte(opened[namespace+"/registry"][corev1.DockerConfigJsonKey]), &got); err != nil {
			t.Fatalf("registry login in %s: %v", namespace, err)
		}
		if diff := cmp.Diff(login, got); diff != "" {
			t.Errorf("registry login in %s (-want +got):\n%s", namespace, diff)
		}
	}
	// A service knows of a caller's key its SHA-256.
	for _, service := range []string{"auth-service", "cluster-provisioner", "gitops-scaffolder", "build-service"} {
		lines := strings.Fields(value("kubeopera-core/"+service+"-api-keys", "keys"))
		if len(lines) == 0 {
			t.Errorf("%s has no callers", service)
		}
		for _, line := range lines {
			caller, digest, _ := strings.Cut(line, ":")
			sum := sha256.Sum256([]byte(value("kubeopera-core/"+caller+"-credentials", service+"-api-key")))
			same("digest of the key of "+caller+" at "+service, digest, hex.EncodeToString(sum[:]))
		}
	}
	checkReferences(t, opened, target)
}

// checkReferences looks for the Secrets that workloads read, as far as sealed ones
// are to make them.
func checkReferences(t *testing.T, opened map[string]map[string]string, target *gitops.Target) {
	t.Helper()
	references := 0
	want := func(namespace, name, key string) {
		t.Helper()
		references++
		if values, ok := opened[namespace+"/"+name]; !ok || key != "" && values[key] == "" {
			t.Errorf("a workload in %s reads %s of Secret %s, which is not there", namespace, key, name)
		}
	}
	templates := map[string][]corev1.PodTemplateSpec{}
	for _, namespace := range []string{"kubeopera-core", "kubeopera-data"} {
		deployments, err := target.Kubernetes().AppsV1().Deployments(namespace).List(t.Context(), listAll)
		if err != nil {
			t.Fatal(err)
		}
		sets, err := target.Kubernetes().AppsV1().StatefulSets(namespace).List(t.Context(), listAll)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range deployments.Items {
			templates[namespace] = append(templates[namespace], d.Spec.Template)
		}
		for _, set := range slices.DeleteFunc(sets.Items, func(s appsv1.StatefulSet) bool { return s.DeletionTimestamp != nil }) {
			templates[namespace] = append(templates[namespace], set.Spec.Template)
		}
	}
	for namespace, list := range templates {
		for _, template := range list {
			for _, secret := range template.Spec.ImagePullSecrets {
				want(namespace, secret.Name, corev1.DockerConfigJsonKey)
			}
			for _, volume := range template.Spec.Volumes {
				if volume.Secret != nil && (volume.Secret.Optional == nil || !*volume.Secret.Optional) {
					want(namespace, volume.Secret.SecretName, "")
				}
			}
			for _, container := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
				for _, env := range container.Env {
					if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
						want(namespace, env.ValueFrom.SecretKeyRef.Name, env.ValueFrom.SecretKeyRef.Key)
					}
				}
			}
		}
	}
	if references < 10 {
		t.Errorf("the workloads of %d namespaces read only %d Secrets", len(templates), references)
	}
}

// sealedForThisCluster opens a sealed secret with upstream's program: with the
// cluster's key it does, with another one it does not.
func sealedForThisCluster(t *testing.T, s *scaffolding, target *gitops.Target) {
	t.Helper()
	keys, err := target.Kubernetes().CoreV1().Secrets("sealed-secrets").List(t.Context(), metav1.ListOptions{
		LabelSelector: "sealedsecrets.bitnami.com/sealed-secrets-key",
	})
	if err != nil || len(keys.Items) != 1 {
		t.Fatalf("%d keys of the controller, %v", len(keys.Items), err)
	}
	sealed := s.sealed(t)
	some := sealed[slices.Sorted(maps.Keys(sealed))[0]]
	dir := t.TempDir()
	unseal := func(key []byte) (string, error) {
		file := filepath.Join(dir, "key.pem")
		if err := os.WriteFile(file, key, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), target.Tools().Kubeseal(), "--recovery-unseal", "--recovery-private-key", file)
		cmd.Env = []string{"HOME=" + dir}
		cmd.Stdin = strings.NewReader(some)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := unseal(keys.Items[0].Data[corev1.TLSPrivateKeyKey]); err != nil {
		t.Errorf("the cluster's own key does not open it: %v: %s", err, out)
	}
	if out, err := unseal(newRSAKey(t)); err == nil || !strings.Contains(out, "no key could decrypt") {
		t.Errorf("another cluster's key: %v: %s", err, out)
	}
}
