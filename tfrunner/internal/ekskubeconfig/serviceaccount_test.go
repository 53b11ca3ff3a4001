package ekskubeconfig

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
)

// TestEnsureToken_in_a_cluster: a real API server with its token controller.
func TestEnsureToken_in_a_cluster(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Config{ControllerManager: true})
	ctx := t.Context()
	admin, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ensure := func() string {
		t.Helper()
		token, err := EnsureToken(ctx, admin)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	// use does with a published kubeconfig what only an administrator may do.
	use := func(token string) error {
		t.Helper()
		data, err := Build(Cluster{
			Name: "acme-prod", Endpoint: plane.URL(), CACertificate: base64.StdEncoding.EncodeToString(plane.CABundle()), Region: "eu-west-1",
		}, Options{Auth: api.KubeconfigAuthServiceAccount, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := clientcmd.RESTConfigFromKubeConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
		return err
	}
	first := ensure()
	if err := use(first); err != nil {
		t.Errorf("the published kubeconfig: %v", err)
	}
	if again := ensure(); again != first {
		t.Error("a second run made another token")
	}
	// What somebody takes away is put back.
	if err := admin.RbacV1().ClusterRoleBindings().Delete(ctx, ServiceAccount, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := use(ensure()); err != nil {
		t.Errorf("after the binding was deleted: %v", err)
	}
	// The way to revoke it that Revoke says.
	if err := admin.CoreV1().Secrets(Namespace).Delete(ctx, TokenSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !apierrors.IsUnauthorized(use(first)); {
		if time.Now().After(deadline) {
			t.Fatal("a revoked token is still accepted")
		}
	}
	second := ensure()
	if second == first {
		t.Error("a revoked token is given again")
	}
	if err := use(second); err != nil {
		t.Errorf("the new token: %v", err)
	}
	if err := admin.CoreV1().Secrets(Namespace).Delete(ctx, TokenSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: TokenSecret}}
	if _, err := admin.CoreV1().Secrets(Namespace).Create(ctx, foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureToken(ctx, admin); err == nil || !strings.Contains(err.Error(), TokenSecret) {
		t.Errorf("with a Secret of another type: %v", err)
	}
}

// cluster whose API server answers n times with an error, and makes a token only
// if it has a controller for that.
func clusterOf(n int, answer error, controller bool) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		n--
		return n >= 0, nil, answer
	})
	if controller {
		client.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &corev1.Secret{Data: map[string][]byte{corev1.ServiceAccountTokenKey: []byte("token")}}, nil
		})
	}
	return client
}

func TestEnsureToken_waits(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "namespaces"}
	tests := []struct {
		name   string
		client *fake.Clientset
		want   string // in the error; empty: there is none
	}{
		{"at once", clusterOf(0, nil, true), ""},
		{"while the access entry is not known", clusterOf(5, apierrors.NewUnauthorized("Unauthorized"), true), ""},
		{"while its rights are not known", clusterOf(5, apierrors.NewForbidden(resource, Namespace, nil), true), ""},
		{"while the API server is out of reach", clusterOf(5, errors.New("connection refused"), true), ""},
		{"but not for a request that is wrong", clusterOf(1, apierrors.NewBadRequest("no"), true), "namespace kubeopera-system: no"},
		{"but not for ever", clusterOf(1000, apierrors.NewUnauthorized("Unauthorized"), true), "not within 1m30s: namespace kubeopera-system: Unauthorized"},
		{"but not for ever without a controller", clusterOf(0, nil, false), "not within 1m30s: its controller has not made one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				token, err := EnsureToken(t.Context(), tt.client)
				switch {
				case tt.want == "" && (err != nil || token != "token"):
					t.Errorf("got %q, %v", token, err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("got %v, want %q", err, tt.want)
				}
			})
		})
	}
}
