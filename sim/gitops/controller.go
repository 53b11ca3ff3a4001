package gitops

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Ports of the controller.
const (
	controllerPort        = 8080
	controllerMetricsPort = 8081
)

// objects are those of the sealed-secrets chart, with its names and rights.
func (c Controller) objects() []runtime.Object {
	account := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: c.Name}}
	metrics := c.meta(c.Name + "-metrics")
	metrics.Labels["app.kubernetes.io/component"] = "metrics"
	// The chart's is secrets-unsealer, which a second controller would take over.
	unsealer := c.meta(c.Namespace + "-" + c.Name + "-unsealer")
	unsealer.Namespace = ""
	objects := []runtime.Object{
		&corev1.ServiceAccount{TypeMeta: core("ServiceAccount"), ObjectMeta: c.meta(c.Name)},
		&rbacv1.ClusterRole{
			TypeMeta: rbac("ClusterRole"), ObjectMeta: unsealer,
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"bitnami.com"}, Resources: []string{"sealedsecrets"}, Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{"bitnami.com"}, Resources: []string{"sealedsecrets/status"}, Verbs: []string{"update"}},
				{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "create", "update", "delete", "watch"}},
				{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
			},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: rbac("ClusterRoleBinding"), ObjectMeta: unsealer,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: unsealer.Name}, Subjects: account,
		},
		c.role("key-admin",
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"sealed-secrets-key"}, Verbs: []string{"get"}},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "list"}},
		),
		c.binding("key-admin", account...),
		c.service(c.meta(c.Name), "http", controllerPort),
		c.service(metrics, "metrics", controllerMetricsPort),
		c.deployment(),
	}
	if c.proxier {
		objects = append(objects,
			c.role("service-proxier",
				rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, ResourceNames: []string{c.Name}, Verbs: []string{"get"}},
				rbacv1.PolicyRule{
					APIGroups: []string{""}, Resources: []string{"services/proxy"}, Verbs: []string{"create", "get"},
					ResourceNames: []string{"http:" + c.Name + ":", "http:" + c.Name + ":http", c.Name},
				},
			),
			c.binding("service-proxier", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}))
	}
	return objects
}

func core(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
func rbac(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func (c Controller) meta(name string) metav1.ObjectMeta {
	labels := map[string]string{"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/part-of": sealedSecretsChart}
	maps.Copy(labels, c.Labels)
	return metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: labels}
}

func (c Controller) role(suffix string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{TypeMeta: rbac("Role"), ObjectMeta: c.meta(c.Name + "-" + suffix), Rules: rules}
}

func (c Controller) binding(suffix string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: rbac("RoleBinding"), ObjectMeta: c.meta(c.Name + "-" + suffix),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: c.Name + "-" + suffix}, Subjects: subjects,
	}
}

func (c Controller) service(meta metav1.ObjectMeta, port string, number int32) *corev1.Service {
	return &corev1.Service{
		TypeMeta: core("Service"), ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Selector: c.Labels,
			Ports:    []corev1.ServicePort{{Name: port, Port: number, TargetPort: intstr.FromString(port), Protocol: corev1.ProtocolTCP}},
		},
	}
}

func (c Controller) deployment() *appsv1.Deployment {
	args := []string{"--update-status", "--key-prefix", "sealed-secrets-key", "--listen-addr", ":8080", "--listen-metrics-addr", ":8081"}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: c.meta(c.Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: c.Labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: c.Labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: c.Name,
					Containers: []corev1.Container{{
						Name: "controller", Image: c.Image, ImagePullPolicy: corev1.PullIfNotPresent,
						Command: []string{"controller"}, Args: append(args, c.Args...),
						Ports: []corev1.ContainerPort{
							{Name: "http", ContainerPort: controllerPort, Protocol: corev1.ProtocolTCP},
							{Name: "metrics", ContainerPort: controllerMetricsPort, Protocol: corev1.ProtocolTCP},
						},
						ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
							HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")},
						}},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
						VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
					}},
					Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	}
}
