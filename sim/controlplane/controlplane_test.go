package controlplane_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
	"github.com/kubeopera/platform/sim/sandbox"
)

func TestMain(m *testing.M) {
	if err := sandbox.Enter(); err != nil {
		// The tests run all the same; only a killed run may leave processes behind.
		fmt.Fprintln(os.Stderr, err)
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"),
		goleak.IgnoreAnyFunction("net/http/internal/http2.(*clientConnReadLoop).run"))
}

func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestControlPlaneWithControllers(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Config{
		ControllerManager: true,
		CertificateNames:  []string{"eks.example.test", "127.0.0.2"},
	})
	admin := client(t, plane.RESTConfig())

	t.Run("the certificate holds the extra names", func(t *testing.T) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(plane.CABundle())
		host := strings.TrimPrefix(plane.URL(), "https://")
		for _, name := range []string{"127.0.0.1", "localhost", "eks.example.test", "127.0.0.2"} {
			dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12}}
			connection, err := dialer.DialContext(t.Context(), "tcp", host)
			if err != nil {
				t.Errorf("as %s: %v", name, err)
				continue
			}
			_ = connection.Close()
		}
	})

	t.Run("controllers work", func(t *testing.T) {
		job, err := admin.BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "job"},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "main", Image: "image"}},
			}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var pods *corev1.PodList
		until(t, "the Job has a pod", func() bool {
			pods, err = admin.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job.Name})
			if err != nil {
				t.Fatal(err)
			}
			return len(pods.Items) == 1
		})
		volumes := pods.Items[0].Spec.Volumes
		if len(volumes) != 1 || volumes[0].Projected == nil {
			t.Errorf("ServiceAccount admission gave the pod the volumes %+v, want a projected token", volumes)
		}
	})

	t.Run("a ServiceAccount has the rights that RBAC gives it", func(t *testing.T) {
		content, err := serviceAccountKubeconfig(t, plane, "default", "default")
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(content)
		if err != nil {
			t.Fatal(err)
		}
		account := client(t, config)
		if _, err := account.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("list of Secrets without a Role gave %v, want forbidden", err)
		}
		grant(t, admin, "default", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: "default"})
		until(t, "the Role counts", func() bool {
			_, err := account.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
			return err == nil
		})
	})

	t.Run("the admin's kubeconfig works", func(t *testing.T) {
		content, err := plane.AdminKubeconfig()
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(content)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client(t, config).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// serviceAccountKubeconfig waits for the controller that makes the account.
func serviceAccountKubeconfig(t *testing.T, plane *controlplane.ControlPlane, namespace, name string) ([]byte, error) {
	t.Helper()
	var content []byte
	var err error
	until(t, "the account exists", func() bool {
		content, err = plane.ServiceAccountKubeconfig(t.Context(), namespace, name, time.Hour)
		return !apierrors.IsNotFound(err)
	})
	return content, err
}

// grant lets a subject list the Secrets of a namespace.
func grant(t *testing.T, admin kubernetes.Interface, namespace string, subject rbacv1.Subject) {
	t.Helper()
	_, err := admin.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "secrets"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "secrets"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "secrets"},
		Subjects:   []rbacv1.Subject{subject},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAuthenticationWebhook(t *testing.T) {
	reviewer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Status = authenticationv1.TokenReviewStatus{}
		if review.Spec.Token == "k8s-aws-v1.good" {
			review.Status = authenticationv1.TokenReviewStatus{
				Authenticated: true,
				User:          authenticationv1.UserInfo{Username: "arn:aws:iam::123456789012:user/one", Groups: []string{"system:masters"}},
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer reviewer.Close()
	webhook := filepath.Join(t.TempDir(), "webhook.kubeconfig")
	writeWebhook(t, webhook, reviewer)

	plane := controlplanetest.Start(t, controlplane.Config{AuthenticationWebhook: webhook})
	withToken := func(token string) *kubernetes.Clientset {
		config := rest.AnonymousClientConfig(plane.RESTConfig())
		config.BearerToken = token
		return client(t, config)
	}
	if _, err := withToken("k8s-aws-v1.good").CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the token that the webhook knows: %v", err)
	}
	if _, err := withToken("k8s-aws-v1.bad").CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("another token gave %v, want unauthorized", err)
	}
}

// writeWebhook writes the kubeconfig by which kube-apiserver finds the reviewer.
func writeWebhook(t *testing.T, path string, reviewer *httptest.Server) {
	t.Helper()
	authority := filepath.Join(filepath.Dir(path), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: reviewer.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: webhook, cluster: {server: %q, certificate-authority: %q}}]
contexts: [{name: webhook, context: {cluster: webhook, user: apiserver}}]
users: [{name: apiserver, user: {}}]
current-context: webhook
`, reviewer.URL, authority)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStopIsQuickWithAnOpenWatch(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Config{Assets: controlplanetest.Assets(t), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := client(t, plane.RESTConfig()).CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	started := time.Now()
	if err := plane.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("stop took %s", took)
	}
	var dialer net.Dialer
	if _, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(plane.URL(), "https://")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the stop: %v, want a refused connection", err)
	}
}

func TestStartNamesMissingBinaries(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := controlplane.Start(t.Context(), controlplane.Config{Assets: dir, Dir: t.TempDir(), ControllerManager: true})
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver, kube-controller-manager not found") {
		t.Errorf("start gave %v, want both missing binaries named", err)
	}
}

func TestStartOnACancelledContextLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	_, err := controlplane.Start(ctx, controlplane.Config{Assets: controlplanetest.Assets(t), Dir: dir})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("start gave %v, want context.Canceled", err)
	}
	if left := processesWith(t, dir); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}

// processesWith lists the processes that have an argument which contains part.
func processesWith(t *testing.T, part string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(file string) bool {
		content, err := os.ReadFile(file)
		return err != nil || !strings.Contains(string(content), part)
	})
}

// until polls a condition that the control plane makes true.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 30 s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
