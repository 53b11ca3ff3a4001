package ekskubeconfig

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/client-go/applyconfigurations/core/v1"
	rbac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// What service_account_token makes in a cluster. The token does not end by
// itself: it is valid for as long as its Secret is there.
const (
	Namespace      = "kubeopera-system"
	ServiceAccount = "kubeopera-admin" // and the ClusterRoleBinding that makes it cluster-admin
	TokenSecret    = "kubeopera-admin-token"

	// Revoke is the command that makes the token invalid at once. The next apply
	// of the environment makes another one.
	Revoke = "kubectl --namespace " + Namespace + " delete secret " + TokenSecret
)

// What is behind an object, for whoever comes across it in the cluster.
const (
	descriptionKey = "kubernetes.io/description"
	description    = "For the kubeconfig that kubeopera has published. To revoke it: " + Revoke
)

const (
	fieldManager = "terraform-runner"
	callTimeout  = 15 * time.Second // of one call to the API server
	tokenPoll    = time.Second
	// tokenTimeout is for the cluster's token controller, which takes a second,
	// and for a new access entry to be known, which takes some.
	tokenTimeout = 90 * time.Second
)

// Client speaks to the cluster's API server with a bearer token.
func Client(c Cluster, bearer string) (kubernetes.Interface, error) {
	ca, err := c.check()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: c.Endpoint, BearerToken: bearer, TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		Timeout: callTimeout, UserAgent: fieldManager,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster's API server: %w", err)
	}
	return client, nil
}

// EnsureToken makes sure that the cluster has the ServiceAccount with its rights
// and its token, as often as it is called, and returns the token. It waits up to
// tokenTimeout for the cluster to make it.
func EnsureToken(ctx context.Context, client kubernetes.Interface) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tokenTimeout, fmt.Errorf("not within %s", tokenTimeout))
	defer cancel()
	last := errors.New("its controller has not made one")
	for {
		token, err := ensureToken(ctx, client)
		switch {
		case err == nil && token != "":
			return token, nil
		case err != nil && ctx.Err() == nil && !transient(err):
			return "", fmt.Errorf("make a ServiceAccount token in the cluster: %w", err)
		case err != nil && ctx.Err() == nil:
			last = err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("make a ServiceAccount token in the cluster: %w: %w", context.Cause(ctx), last)
		case <-time.After(tokenPoll):
		}
	}
}

// transient says whether an error may be gone in a moment: the API server is
// busy or out of reach, or does not know of the access entry yet.
func transient(err error) bool {
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		return true // no answer of an API server
	}
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsConflict(err)
}

// ensureToken applies the objects and reads the token, which is empty until the
// token controller has made it.
func ensureToken(ctx context.Context, client kubernetes.Interface) (string, error) {
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	labels := map[string]string{"app.kubernetes.io/managed-by": "kubeopera"}
	describe := map[string]string{descriptionKey: description}
	if _, err := client.CoreV1().Namespaces().Apply(ctx, core.Namespace(Namespace).WithLabels(labels), options); err != nil {
		return "", fmt.Errorf("namespace %s: %w", Namespace, err)
	}
	account := core.ServiceAccount(ServiceAccount, Namespace).WithLabels(labels).WithAnnotations(describe).WithAutomountServiceAccountToken(false)
	if _, err := client.CoreV1().ServiceAccounts(Namespace).Apply(ctx, account, options); err != nil {
		return "", fmt.Errorf("ServiceAccount %s: %w", ServiceAccount, err)
	}
	binding := rbac.ClusterRoleBinding(ServiceAccount).WithLabels(labels).WithAnnotations(describe).
		WithRoleRef(rbac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName("cluster-admin")).
		WithSubjects(rbac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(ServiceAccount).WithNamespace(Namespace))
	if _, err := client.RbacV1().ClusterRoleBindings().Apply(ctx, binding, options); err != nil {
		return "", fmt.Errorf("ClusterRoleBinding %s: %w", ServiceAccount, err)
	}
	secret := core.Secret(TokenSecret, Namespace).WithLabels(labels).WithType(corev1.SecretTypeServiceAccountToken).
		WithAnnotations(describe).WithAnnotations(map[string]string{corev1.ServiceAccountNameKey: ServiceAccount})
	made, err := client.CoreV1().Secrets(Namespace).Apply(ctx, secret, options)
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", TokenSecret, err)
	}
	return string(made.Data[corev1.ServiceAccountTokenKey]), nil
}
