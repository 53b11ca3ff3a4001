package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// localClient is a client with a file's identity at a given API server.
func localClient(path, server string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	if server != "" {
		config.Host = server
	}
	config.Timeout = 15 * time.Second
	config.QPS, config.Burst = 100, 200
	return kubernetes.NewForConfig(config)
}

// ready asks an API server whether it is.
func ready(ctx context.Context, kube kubernetes.Interface) error {
	var status int
	err := kube.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status).Error()
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

// put creates an object, or replaces the one that is there.
func put[T any](ctx context.Context, object T, create, update func(context.Context, T) error) error {
	err := create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		err = update(ctx, object)
	}
	return err
}

func putConfigMap(ctx context.Context, kube kubernetes.Interface, namespace, name string, data map[string]string) error {
	api := kube.CoreV1().ConfigMaps(namespace)
	return put(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data},
		func(ctx context.Context, o *corev1.ConfigMap) error {
			_, err := api.Create(ctx, o, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, o *corev1.ConfigMap) error {
			_, err := api.Update(ctx, o, metav1.UpdateOptions{})
			return err
		})
}

func putSecret(ctx context.Context, kube kubernetes.Interface, secret *corev1.Secret) error {
	api := kube.CoreV1().Secrets(metav1.NamespaceSystem)
	return put(ctx, secret,
		func(ctx context.Context, o *corev1.Secret) error {
			_, err := api.Create(ctx, o, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, o *corev1.Secret) error {
			_, err := api.Update(ctx, o, metav1.UpdateOptions{})
			return err
		})
}

func (k *kubeadmCall) uploadConfig(ctx context.Context, kube kubernetes.Interface) error {
	configuration := k.config.cluster
	configuration.typeMeta = typeMeta{APIVersion: "kubeadm.k8s.io/v1beta4", Kind: "ClusterConfiguration"}
	content, err := yaml.Marshal(configuration)
	if err != nil {
		return err
	}
	kubelet, err := os.ReadFile("/var/lib/kubelet/config.yaml")
	if err != nil {
		return err
	}
	return errors.Join(
		putConfigMap(ctx, kube, metav1.NamespaceSystem, "kubeadm-config", map[string]string{"ClusterConfiguration": string(content)}),
		putConfigMap(ctx, kube, metav1.NamespaceSystem, "kubelet-config", map[string]string{"kubelet": string(kubelet)}),
	)
}

// markControlPlane waits for the node, which the kubelet registers.
func markControlPlane(ctx context.Context, kube kubernetes.Interface, node string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{
		"node-role.kubernetes.io/control-plane": "", "node.kubernetes.io/exclude-from-external-load-balancers": "",
	}}})
	if err != nil {
		return err
	}
	return until(ctx, func() error {
		_, err := kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// tokenGroup is whom bootstrap tokens stand for.
const tokenGroup = "system:bootstrappers:kubeadm:default-node-token"

func groups(names ...string) []rbacv1.Subject {
	var subjects []rbacv1.Subject
	for _, name := range names {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name})
	}
	return subjects
}

// bootstrapRules are the rights of administrators, of joining nodes, and of
// anybody who looks for the cluster's CA.
func bootstrapRules(ctx context.Context, kube kubernetes.Interface) error {
	anonymous := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"}}
	return errors.Join(
		putClusterBinding(ctx, kube, "kubeadm:cluster-admins", "cluster-admin", groups("kubeadm:cluster-admins")),
		putClusterBinding(ctx, kube, "kubeadm:kubelet-bootstrap", "system:node-bootstrapper", groups(tokenGroup)),
		putClusterBinding(ctx, kube, "kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", groups(tokenGroup)),
		putClusterBinding(ctx, kube, "kubeadm:node-autoapprove-certificate-rotation", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", groups("system:nodes")),
		putClusterRole(ctx, kube, "kubeadm:get-nodes", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}),
		putClusterBinding(ctx, kube, "kubeadm:get-nodes", "kubeadm:get-nodes", groups(tokenGroup)),
		putReader(ctx, kube, metav1.NamespacePublic, "kubeadm:bootstrap-signer-clusterinfo", "configmaps", "cluster-info", anonymous),
		putReader(ctx, kube, metav1.NamespaceSystem, "kubeadm:nodes-kubeadm-config", "configmaps", "kubeadm-config", groups("system:nodes", tokenGroup)),
		putReader(ctx, kube, metav1.NamespaceSystem, "kubeadm:kubelet-config", "configmaps", "kubelet-config", groups("system:nodes", tokenGroup)),
	)
}

func putClusterRole(ctx context.Context, kube kubernetes.Interface, name string, rule rbacv1.PolicyRule) error {
	_, err := kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule},
	}, metav1.CreateOptions{})
	return unlessThere(err)
}

func putClusterBinding(ctx context.Context, kube kubernetes.Interface, name, role string, subjects []rbacv1.Subject) error {
	_, err := kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}, metav1.CreateOptions{})
	return unlessThere(err)
}

// putReader lets subjects read one object.
func putReader(ctx context.Context, kube kubernetes.Interface, namespace, name, resource, object string, subjects []rbacv1.Subject) error {
	_, roleErr := kube.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{object}, Verbs: []string{"get"},
		}},
	}, metav1.CreateOptions{})
	_, bindingErr := kube.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}, metav1.CreateOptions{})
	return errors.Join(unlessThere(roleErr), unlessThere(bindingErr))
}

func unlessThere(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// publishClusterInfo tells the world the CA; the bootstrap signer of
// kube-controller-manager signs it with every token.
func (k *kubeadmCall) publishClusterInfo(ctx context.Context, kube kubernetes.Interface) error {
	ca, err := os.ReadFile(pkiDir + "/ca.crt")
	if err != nil {
		return err
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config",
		"clusters": []map[string]any{{"name": "", "cluster": map[string]any{
			"server": "https://" + k.config.endpoint(), "certificate-authority-data": ca,
		}}},
	})
	if err != nil {
		return err
	}
	return putConfigMap(ctx, kube, metav1.NamespacePublic, "cluster-info", map[string]string{"kubeconfig": string(content)})
}

// addons are CoreDNS and kube-proxy, which are objects only.
func addons(ctx context.Context, kube kubernetes.Interface, version string) error {
	labels := map[string]string{"k8s-app": "kube-dns"}
	_, dnsErr := kube.AppsV1().Deployments(metav1.NamespaceSystem).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "coredns", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "coredns", Image: "registry.k8s.io/coredns/coredns:v1.12.1"}}},
			},
		},
	}, metav1.CreateOptions{})
	proxy := map[string]string{"k8s-app": "kube-proxy"}
	_, proxyErr := kube.AppsV1().DaemonSets(metav1.NamespaceSystem).Create(ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-proxy", Labels: proxy},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: proxy},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: proxy},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-proxy", Image: "registry.k8s.io/kube-proxy:v" + version}}},
			},
		},
	}, metav1.CreateOptions{})
	return errors.Join(unlessThere(dnsErr), unlessThere(proxyErr))
}
