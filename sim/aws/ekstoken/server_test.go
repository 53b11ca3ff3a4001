package ekstoken_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/sim/aws/eks"
	"github.com/kubeopera/platform/sim/aws/ekstoken"
)

// clusters has two of the same name, of which the user may enter the second.
type clusters struct{}

func (clusters) Clusters() []eks.ClusterRef {
	return []eks.ClusterRef{{Region: "us-east-1", Name: "c"}, {Region: "eu-central-1", Name: "c"}}
}

func (clusters) Identity(ref eks.ClusterRef, arn string) (eks.Identity, bool) {
	if ref.Region != "eu-central-1" || arn != userARN {
		return eks.Identity{}, false
	}
	return eks.Identity{Username: arn, Groups: []string{"platform"}, Policies: []eks.Policy{
		{Name: eks.PolicyClusterAdmin}, {Name: eks.PolicyView, Namespaces: []string{"a"}},
	}}, true
}

func TestReview(t *testing.T) {
	t.Parallel()
	server, err := ekstoken.Start(t.Context(), ekstoken.Config{
		Verifier: *verifier(t, signedAt), Clusters: clusters{}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	tests := []struct {
		name    string
		cluster *eks.ClusterRef
		token   string
		want    bool
	}{
		{name: "any cluster", token: spec{}.token(t), want: true},
		{name: "this cluster", cluster: &eks.ClusterRef{Region: "eu-central-1", Name: "c"}, token: spec{}.token(t), want: true},
		{name: "no entry in this cluster", cluster: &eks.ClusterRef{Region: "us-east-1", Name: "c"}, token: spec{}.token(t)},
		{name: "no entry at all", token: spec{id: sessionID, session: "token"}.token(t)},
		{name: "no token", token: "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config, err := server.Kubeconfig(tt.cluster)
			if err != nil {
				t.Fatal(err)
			}
			got := review(t, config, tt.token)
			if got.Authenticated != tt.want {
				t.Fatalf("got %+v", got)
			}
			if !tt.want {
				return
			}
			groups := []string{"platform", ekstoken.PolicyGroup(eks.PolicyClusterAdmin), ekstoken.PolicyGroup(eks.PolicyView) + ":a"}
			if diff := cmp.Diff(groups, got.User.Groups); diff != "" || got.User.Username != userARN || got.User.Extra["arn"][0] != userARN {
				t.Errorf("user %+v, groups (-want +got):\n%s", got.User, diff)
			}
		})
	}
}

// review asks as an API server does: by the kubeconfig.
func review(t *testing.T, config []byte, token string) authenticationv1.TokenReviewStatus {
	t.Helper()
	rest, err := clientcmd.RESTConfigFromKubeConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(rest.CAData) {
		t.Fatal("no CA")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	body, err := json.Marshal(authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, rest.Host, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var out authenticationv1.TokenReview
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out.Status
}

func TestBindPoliciesTwice(t *testing.T) {
	t.Parallel()
	ctx, client := context.Background(), fake.NewClientset()
	for range 2 {
		if err := ekstoken.BindPolicies(ctx, client); err != nil {
			t.Fatal(err)
		}
	}
	b, err := client.RbacV1().ClusterRoleBindings().Get(ctx, ekstoken.PolicyGroup(eks.PolicyClusterAdmin), metav1.GetOptions{})
	if err != nil || b.RoleRef.Name != "cluster-admin" || b.Subjects[0].Name != ekstoken.PolicyGroup(eks.PolicyClusterAdmin) {
		t.Errorf("binding: %+v, %v", b, err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Get(ctx, "none", metav1.GetOptions{}); !errors.IsNotFound(err) {
		t.Errorf("fake client: %v", err)
	}
}
