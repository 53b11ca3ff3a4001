// Package runjob is the Kubernetes Job of a run as all services make it: one pod,
// restricted, that is not started again. A service says which containers and
// volumes are in it; what creates the Job is package jobrun.
package runjob

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/runcontract"
)

const (
	// userID is the runner images' user; anything but 0 would do.
	userID = 65532
	// ttl keeps a finished Job, its pod and their messages for somebody who looks
	// the day after.
	ttl = 24 * time.Hour
)

// Spec is what sets one Job apart from another.
type Spec struct {
	Kind           runcontract.Kind
	ID             string // the run's
	Environment    string // the run's
	Namespace      string
	ManagedBy      string // the service's name
	ServiceAccount string
	// Timeout is the runner's own deadline, GracePeriod the time that it gets to
	// stop in, StartDeadline the time in which a pod has to start.
	Timeout       time.Duration
	GracePeriod   time.Duration
	StartDeadline time.Duration

	InitContainers []corev1.Container
	Runner         corev1.Container
	Volumes        []corev1.Volume
}

// Job is the Job of a run.
func Job(s Spec) *batchv1.Job {
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      runcontract.JobName(s.Kind, s.ID),
			Namespace: s.Namespace,
			Labels:    labels(s),
		},
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(1)),
			Completions: new(int32(1)),
			// What failed is not repeated unasked: retries are runs of their own.
			BackoffLimit: new(int32(0)),
			// A second pod must not start while the first may still be at work.
			PodReplacementPolicy:    new(batchv1.Failed),
			TTLSecondsAfterFinished: new(int32(ttl.Seconds())),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: labels(s),
					Annotations: map[string]string{
						"kubectl.kubernetes.io/default-container": s.Runner.Name,
						// No autoscaler may drain the node under a run.
						"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
						"karpenter.sh/do-not-disrupt":                    "true",
					},
				},
				Spec: corev1.PodSpec{
					RestartPolicy:      corev1.RestartPolicyNever,
					ServiceAccountName: s.ServiceAccount,
					// Only the runner needs a token; Token is projected into it.
					AutomountServiceAccountToken: new(false),
					// Other Services' addresses are none of a run's business.
					EnableServiceLinks: new(false),
					// A deadline of the pod keeps its log and message, which one of the
					// Job would delete. It only catches a runner that does not keep its own.
					ActiveDeadlineSeconds:         new(podDeadline(s)),
					TerminationGracePeriodSeconds: new(int64(s.GracePeriod.Seconds())),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: new(true),
						RunAsUser:    new(int64(userID)),
						RunAsGroup:   new(int64(userID)),
						// Lets that user read the Secrets and write to the workspace.
						FSGroup:             new(int64(userID)),
						FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
						SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					InitContainers: s.InitContainers,
					Containers:     []corev1.Container{s.Runner},
					Volumes:        s.Volumes,
				},
			},
		},
	}
}

func labels(s Spec) map[string]string {
	return map[string]string{
		runcontract.LabelManagedBy:   s.ManagedBy,
		runcontract.LabelRunID:       s.ID,
		runcontract.LabelKind:        string(s.Kind),
		runcontract.LabelEnvironment: s.Environment,
		runcontract.LabelComponent:   runcontract.ComponentRun,
	}
}

// podDeadline is the runner's deadline, the time it gets to stop in, and what
// the kubelet's clock counts and the runner's does not: pulling and cloning.
func podDeadline(s Spec) int64 {
	const margin = 5 * time.Minute
	return int64((s.StartDeadline + s.Timeout + s.GracePeriod + margin).Seconds())
}

// Image is a pinned image: the digest, if there is one, is what counts.
func Image(name, digest string) string {
	if digest == "" {
		return name
	}
	return name + "@" + digest
}

// Command starts a runner below itself as process 1, which reaps orphans and
// passes signals to its one child only: what that runs must be interrupted once,
// by the runner, and not again by the kubelet.
func Command(binary string) []string { return []string{binary, "init", "--", binary} }

// Env are the variables of every container.
func Env() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "HOME", Value: homeDir},
		fieldEnv(runcontract.EnvPodName, "metadata.name"),
		fieldEnv(runcontract.EnvPodUID, "metadata.uid"),
		fieldEnv(runcontract.EnvPodNamespace, "metadata.namespace"),
	}
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

// MemoryLimit tells a container its own limit, in bytes.
func MemoryLimit(container string) corev1.EnvVar {
	return corev1.EnvVar{Name: runcontract.EnvMemoryLimit, ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
		ContainerName: container, Resource: "limits.memory", Divisor: resource.MustParse("1"),
	}}}
}

// Resources are a request for CPU, and memory as request and limit: equal, so that
// a node short of memory takes it from others first; an eviction there gives a run
// one second to stop. There is no CPU limit, which would only make a run hold for
// longer what it holds.
func Resources(cpu, memory string) corev1.ResourceRequirements {
	m := resource.MustParse(memory)
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: m},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: m},
	}
}

// Restricted is what Pod Security's level of that name wants, and a read-only
// root file system beside it.
func Restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		RunAsNonRoot:             new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}
