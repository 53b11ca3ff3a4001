package kube

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/runcontract"
)

// The image that every run uses, pinned by hand: no Deployment runs it, so no
// automatic update finds it, and this is the one place that names it. The tag is
// that of the runner's release which reads this service's run spec
// (runcontract.SpecVersion). Set the digest, "sha256:...", when that release is
// published to a registry; empty means that the tag decides.
const (
	terraformRunnerImage  = "kubeopera/terraform-runner:0.1.0"
	terraformRunnerDigest = ""
)

const (
	serviceAccount = "terraform-runner"
	cloneContainer = "git-clone"
	mainContainer  = "terraform"
	runnerBinary   = "/usr/local/bin/terraform-runner"
	// userID is the runner image's user; anything but 0 would do.
	userID = 65532
	// ttl keeps a finished Job, its pod and their messages for somebody who looks
	// the day after.
	ttl = 24 * time.Hour
	// tokenLifetime is how long a projected token lasts; the kubelet renews it
	// in time, so it need not last as long as a run.
	tokenLifetime = time.Hour
)

// Names of volumes.
const (
	volumeWorkspace   = "workspace"
	volumeEnvironment = "environment"
	volumeCredential  = "credential"
	volumeToken       = "service-account-token"
	volumeTmp         = "tmp"
	volumeModulesCA   = "modules-ca"
	volumeModulesAuth = "modules-auth"
)

const (
	tokenDir = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path, not a credential
	tmpDir   = "/tmp"
	homeDir  = "/tmp/home"
)

// Modules says where the Terraform modules come from.
type Modules struct {
	RepositoryURL string
	RepositoryRef string
	// CAConfigMap holds the certificate authority of the repository's server
	// under the key runcontract.ModulesCAFile; empty: a publicly trusted one.
	CAConfigMap string
	// AuthSecret holds the credential files of the repository; empty: it is public.
	AuthSecret string
}

// Spec is what sets one Job apart from another.
type Spec struct {
	ID          string // the run's
	Environment string // the run's Terraform environment
	Namespace   string
	ManagedBy   string // the service's name
	Modules     Modules
	// Timeout is the runner's own deadline, GracePeriod the time that Terraform
	// gets to stop in, StartDeadline the time in which a pod has to start.
	Timeout       time.Duration
	GracePeriod   time.Duration
	StartDeadline time.Duration
}

// TerraformJob is the Job of a run.
func TerraformJob(s Spec) *batchv1.Job {
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      runcontract.JobName(runcontract.KindProvision, s.ID),
			Namespace: s.Namespace,
			Labels:    labels(s),
		},
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(1)),
			Completions: new(int32(1)),
			// An apply that failed is not repeated unasked: retries are runs of their own.
			BackoffLimit: new(int32(0)),
			// A second pod must not start while the first may still hold the state.
			PodReplacementPolicy:    new(batchv1.Failed),
			TTLSecondsAfterFinished: new(int32(ttl.Seconds())),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: labels(s),
					Annotations: map[string]string{
						"kubectl.kubernetes.io/default-container": mainContainer,
						// No autoscaler may drain the node under a running apply.
						"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
						"karpenter.sh/do-not-disrupt":                    "true",
					},
				},
				Spec: corev1.PodSpec{
					RestartPolicy:      corev1.RestartPolicyNever,
					ServiceAccountName: serviceAccount,
					// The clone needs no token; the runner's is projected below.
					AutomountServiceAccountToken: new(false),
					// Other Services' addresses are none of Terraform's business.
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
					InitContainers: []corev1.Container{cloner(s)},
					Containers:     []corev1.Container{terraform(s)},
					Volumes:        volumes(s),
				},
			},
		},
	}
}

func labels(s Spec) map[string]string {
	return map[string]string{
		runcontract.LabelManagedBy:   s.ManagedBy,
		runcontract.LabelRunID:       s.ID,
		runcontract.LabelKind:        string(runcontract.KindProvision),
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

// cloner clones the modules repository. Its credential is mounted nowhere else,
// and the run's is not mounted here.
func cloner(s Spec) corev1.Container {
	mounts := []corev1.VolumeMount{
		{Name: volumeWorkspace, MountPath: runcontract.WorkspaceDir},
		{Name: volumeTmp, MountPath: tmpDir},
	}
	if s.Modules.CAConfigMap != "" {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeModulesCA, MountPath: runcontract.ModulesCADir, ReadOnly: true})
	}
	if s.Modules.AuthSecret != "" {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeModulesAuth, MountPath: runcontract.ModulesAuthDir, ReadOnly: true})
	}
	return corev1.Container{
		Name:    cloneContainer,
		Image:   image(),
		Command: command(),
		Args:    []string{"clone"},
		Env: append([]corev1.EnvVar{
			{Name: "MODULES_REPOSITORY_URL", Value: s.Modules.RepositoryURL},
			{Name: "MODULES_REPOSITORY_REF", Value: s.Modules.RepositoryRef},
			{Name: "ENVIRONMENT", Value: s.Environment},
		}, commonEnv()...),
		Resources:                resources(),
		VolumeMounts:             mounts,
		TerminationMessagePath:   runcontract.TerminationMessagePath,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext:          restricted(),
	}
}

// terraform is the runner proper.
func terraform(s Spec) corev1.Container {
	return corev1.Container{
		Name:      mainContainer,
		Image:     image(),
		Command:   command(),
		Args:      []string{"run"},
		Env:       commonEnv(),
		Resources: resources(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeWorkspace, MountPath: runcontract.WorkspaceDir},
			// The one directory that the clone does not have yet. It is read-only,
			// and terraform init writes: the runner works on a copy beside it.
			{Name: volumeEnvironment, MountPath: runcontract.EnvironmentDir(s.Environment), ReadOnly: true},
			{Name: volumeCredential, MountPath: runcontract.CredentialDir, ReadOnly: true},
			{Name: volumeToken, MountPath: tokenDir, ReadOnly: true},
			{Name: volumeTmp, MountPath: tmpDir},
		},
		TerminationMessagePath:   runcontract.TerminationMessagePath,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext:          restricted(),
	}
}

func image() string {
	if terraformRunnerDigest == "" {
		return terraformRunnerImage
	}
	return terraformRunnerImage + "@" + terraformRunnerDigest
}

// command starts the runner below itself as process 1, which reaps orphans and
// passes signals to its one child only: Terraform must be interrupted once, by
// the runner, and not again by the kubelet.
func command() []string { return []string{runnerBinary, "init", "--", runnerBinary} }

func commonEnv() []corev1.EnvVar {
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

// resources are the same for both containers: a pod asks for the larger of the
// two, so the clone's cost nothing.
//
// Memory: terraform with the AWS provider holds about 630 MB when it validates
// this platform's modules, and more while it plans and applies; 2 GiB is three
// times that. Request and limit are equal, so that a node short of memory takes
// it from others first: an eviction there gives Terraform one second to stop.
// There is no CPU limit: the provider's start is bound by CPU, and a throttled
// apply only holds its lock for longer.
func resources() corev1.ResourceRequirements {
	memory := resource.MustParse("2Gi")
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: memory},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: memory},
	}
}

// restricted is what Pod Security's level of that name wants, and a read-only
// root file system beside it.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		RunAsNonRoot:             new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func volumes(s Spec) []corev1.Volume {
	name := runcontract.JobName(runcontract.KindProvision, s.ID)
	// Read by the owner and by the pod's group, which is fsGroup.
	const mode = int32(0o440)
	list := []corev1.Volume{
		// The sizes stop a runaway before it fills the node's disk. A provider
		// takes some 700 MB where it has to be copied.
		{Name: volumeWorkspace, VolumeSource: emptyDir("4Gi")},
		{Name: volumeTmp, VolumeSource: emptyDir("1Gi")},
		{Name: volumeEnvironment, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name},
			DefaultMode:          new(mode),
		}}},
		{Name: volumeCredential, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  runcontract.CredentialSecretName(runcontract.KindProvision, s.ID),
			DefaultMode: new(mode),
		}}},
		{Name: volumeToken, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
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
		}}},
	}
	if s.Modules.CAConfigMap != "" {
		list = append(list, corev1.Volume{Name: volumeModulesCA, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.Modules.CAConfigMap},
			Items:                []corev1.KeyToPath{{Key: runcontract.ModulesCAFile, Path: runcontract.ModulesCAFile}},
			DefaultMode:          new(mode),
		}}})
	}
	if s.Modules.AuthSecret != "" {
		list = append(list, corev1.Volume{Name: volumeModulesAuth, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  s.Modules.AuthSecret,
			DefaultMode: new(mode),
		}}})
	}
	return list
}

func emptyDir(limit string) corev1.VolumeSource {
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse(limit))}}
}
