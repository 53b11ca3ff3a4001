package runjob

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kubeopera/platform/shared/runcontract"
)

const (
	tokenDir = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path, not a credential
	tmpDir   = "/tmp"
	homeDir  = "/tmp/home"
	// tokenLifetime is how long a projected token lasts; the kubelet renews it
	// in time, so it need not last as long as a run.
	tokenLifetime = time.Hour
	// mode of mounted files: read by the owner and by the pod's group, which is
	// fsGroup.
	mode = int32(0o440)
)

// Volume is a volume and where it is mounted.
type Volume struct {
	name   string
	source corev1.VolumeSource
	at     string
	write  bool
}

// Volume is it for the pod.
func (v Volume) Volume() corev1.Volume { return corev1.Volume{Name: v.name, VolumeSource: v.source} }

// Mount is it for a container.
func (v Volume) Mount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: v.name, MountPath: v.at, ReadOnly: !v.write}
}

// Volumes are volumes for the pod.
func Volumes(list ...Volume) []corev1.Volume {
	out := make([]corev1.Volume, len(list))
	for i, v := range list {
		out[i] = v.Volume()
	}
	return out
}

// Mounts are volumes for a container.
func Mounts(list ...Volume) []corev1.VolumeMount {
	out := make([]corev1.VolumeMount, len(list))
	for i, v := range list {
		out[i] = v.Mount()
	}
	return out
}

// Workspace is the folder that the containers of a run share. Its size stops a
// runaway before it fills the node's disk.
func Workspace(limit string) Volume {
	return Volume{name: "workspace", source: emptyDir(limit), at: runcontract.WorkspaceDir, write: true}
}

// Tmp is /tmp, with the home directory in it.
func Tmp(limit string) Volume {
	return Volume{name: "tmp", source: emptyDir(limit), at: tmpDir, write: true}
}

func emptyDir(limit string) corev1.VolumeSource {
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse(limit))}}
}

// Credential is a run's credential Secret.
func Credential(kind runcontract.Kind, id string) Volume {
	return Secret("credential", runcontract.CredentialSecretName(kind, id), runcontract.CredentialDir, false)
}

// Secret is a Secret, or those of its keys that are named; optional if it need
// not be there.
func Secret(name, secret, at string, optional bool, keys ...string) Volume {
	source := &corev1.SecretVolumeSource{SecretName: secret, Items: items(keys), DefaultMode: new(mode)}
	if optional {
		source.Optional = new(true)
	}
	return Volume{name: name, source: corev1.VolumeSource{Secret: source}, at: at}
}

// ConfigMap is a ConfigMap, or those of its keys that are named.
func ConfigMap(name, configMap, at string, keys ...string) Volume {
	return Volume{name: name, at: at, source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Items: items(keys), DefaultMode: new(mode),
	}}}
}

func items(keys []string) []corev1.KeyToPath {
	var out []corev1.KeyToPath
	for _, k := range keys {
		out = append(out, corev1.KeyToPath{Key: k, Path: k})
	}
	return out
}

// Token is the token of the pod's account, where client libraries look for it.
func Token() Volume {
	return Volume{name: "service-account-token", at: tokenDir, source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(mode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(tokenLifetime.Seconds()))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
	}}}
}
