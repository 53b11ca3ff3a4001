package kube

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runjob"
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
	// Modules are what Terraform works with; nil: the run has no Terraform.
	Modules *Modules
	// RescuedRun is the earlier run whose outputs hold a state that could be saved
	// nowhere else; empty: none.
	RescuedRun string
	// Timeout is the runner's own deadline, GracePeriod the time that Terraform
	// gets to stop in, StartDeadline the time in which a pod has to start.
	Timeout       time.Duration
	GracePeriod   time.Duration
	StartDeadline time.Duration
}

// TerraformJob is the Job of a run.
func TerraformJob(s Spec) *batchv1.Job {
	v := volumesOf(s)
	return runjob.Job(runjob.Spec{
		Kind:           runcontract.KindProvision,
		ID:             s.ID,
		Environment:    s.Environment,
		Namespace:      s.Namespace,
		ManagedBy:      s.ManagedBy,
		ServiceAccount: serviceAccount,
		Timeout:        s.Timeout,
		GracePeriod:    s.GracePeriod,
		StartDeadline:  s.StartDeadline,
		InitContainers: cloners(s, v),
		Runner:         terraform(v),
		Volumes:        runjob.Volumes(v.all()...),
	})
}

// volumes are those of a pod; the lists have one element or none.
type volumes struct {
	workspace, tmp, environment, credential, token runjob.Volume
	modules                                        []runjob.Volume // CA and credential of the repository
	rescue                                         []runjob.Volume
}

func volumesOf(s Spec) volumes {
	v := volumes{
		// A provider takes some 700 MB where it has to be copied.
		workspace: runjob.Workspace("4Gi"),
		tmp:       runjob.Tmp("1Gi"),
		// The one directory that the clone does not have yet. It is read-only,
		// and terraform init writes: the runner works on a copy beside it.
		environment: runjob.ConfigMap("environment", runcontract.JobName(runcontract.KindProvision, s.ID), runcontract.EnvironmentDir(s.Environment)),
		credential:  runjob.Credential(runcontract.KindProvision, s.ID),
		token:       runjob.Token(),
	}
	if s.Modules == nil {
		return v
	}
	if s.Modules.CAConfigMap != "" {
		v.modules = append(v.modules, runjob.ConfigMap("modules-ca", s.Modules.CAConfigMap, runcontract.ModulesCADir, runcontract.ModulesCAFile))
	}
	if s.Modules.AuthSecret != "" {
		v.modules = append(v.modules, runjob.Secret("modules-auth", s.Modules.AuthSecret, runcontract.ModulesAuthDir, false))
	}
	if s.RescuedRun != "" {
		// Of the other run's outputs only the state, not its kubeconfig. It is not
		// there when the state could be saved in the bucket.
		v.rescue = append(v.rescue, runjob.Secret("rescue", runcontract.OutputsSecretName(runcontract.KindProvision, s.RescuedRun),
			runcontract.RescueDir, true, runcontract.KeyErroredState))
	}
	return v
}

func (v volumes) all() []runjob.Volume {
	all := []runjob.Volume{v.workspace, v.tmp, v.environment, v.credential, v.token}
	return append(append(all, v.modules...), v.rescue...)
}

// cloners has the one that clones the modules repository, if the run needs it. Its
// credential is mounted nowhere else, and the run's is not mounted here.
func cloners(s Spec, v volumes) []corev1.Container {
	if s.Modules == nil {
		return nil
	}
	return []corev1.Container{{
		Name:    cloneContainer,
		Image:   image(),
		Command: runjob.Command(runnerBinary),
		Args:    []string{"clone"},
		Env: append([]corev1.EnvVar{
			{Name: "MODULES_REPOSITORY_URL", Value: s.Modules.RepositoryURL},
			{Name: "MODULES_REPOSITORY_REF", Value: s.Modules.RepositoryRef},
			{Name: "ENVIRONMENT", Value: s.Environment},
		}, runjob.Env()...),
		Resources:                resources(),
		VolumeMounts:             runjob.Mounts(append([]runjob.Volume{v.workspace, v.tmp}, v.modules...)...),
		TerminationMessagePath:   runcontract.TerminationMessagePath,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext:          runjob.Restricted(),
	}}
}

// terraform is the runner proper.
func terraform(v volumes) corev1.Container {
	return corev1.Container{
		Name:    mainContainer,
		Image:   image(),
		Command: runjob.Command(runnerBinary),
		Args:    []string{"run"},
		// The runner stops Terraform before the kernel would kill it.
		Env:                      append(runjob.Env(), runjob.MemoryLimit(mainContainer)),
		Resources:                resources(),
		VolumeMounts:             runjob.Mounts(append([]runjob.Volume{v.workspace, v.environment, v.credential, v.token, v.tmp}, v.rescue...)...),
		TerminationMessagePath:   runcontract.TerminationMessagePath,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext:          runjob.Restricted(),
	}
}

func image() string { return runjob.Image(terraformRunnerImage, terraformRunnerDigest) }

// resources are the same for both containers: a pod asks for the larger of the
// two, so the clone's cost nothing.
//
// Memory: terraform with the AWS provider holds about 630 MB when it validates
// this platform's modules, and more while it plans and applies; 2 GiB is three
// times that.
func resources() corev1.ResourceRequirements { return runjob.Resources("500m", "2Gi") }
