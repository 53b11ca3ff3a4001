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
	scaffoldRunnerImage  = "kubeopera/scaffold-runner:0.1.0"
	scaffoldRunnerDigest = ""
)

const (
	serviceAccount = "scaffold-runner"
	mainContainer  = "scaffold-runner"
	runnerBinary   = "/usr/local/bin/scaffold-runner"
)

// Spec is what sets one Job apart from another.
type Spec struct {
	ID          string // the run's
	Environment string // the run's
	Namespace   string
	ManagedBy   string // the service's name
	// CAConfigMap holds the certificate authority of Git servers under the key
	// runcontract.RepositoryCAFile; empty: they have publicly trusted ones.
	CAConfigMap string
	// Timeout is the runner's own deadline, GracePeriod the time that it gets to
	// stop in, StartDeadline the time in which a pod has to start.
	Timeout       time.Duration
	GracePeriod   time.Duration
	StartDeadline time.Duration
}

// ScaffoldJob is the Job of a run.
func ScaffoldJob(s Spec) *batchv1.Job {
	volumes := []runjob.Volume{
		// A clone without history, and the files of one environment.
		runjob.Workspace("2Gi"),
		runjob.Tmp("1Gi"),
		runjob.ConfigMap("run", runcontract.JobName(runcontract.KindScaffold, s.ID), runcontract.SpecDir),
		runjob.Credential(runcontract.KindScaffold, s.ID),
		runjob.Token(),
	}
	if s.CAConfigMap != "" {
		volumes = append(volumes, runjob.ConfigMap("repository-ca", s.CAConfigMap, runcontract.RepositoryCADir, runcontract.RepositoryCAFile))
	}
	return runjob.Job(runjob.Spec{
		Kind:           runcontract.KindScaffold,
		ID:             s.ID,
		Environment:    s.Environment,
		Namespace:      s.Namespace,
		ManagedBy:      s.ManagedBy,
		ServiceAccount: serviceAccount,
		Timeout:        s.Timeout,
		GracePeriod:    s.GracePeriod,
		StartDeadline:  s.StartDeadline,
		Runner: corev1.Container{
			Name:    mainContainer,
			Image:   runjob.Image(scaffoldRunnerImage, scaffoldRunnerDigest),
			Command: runjob.Command(runnerBinary),
			Args:    []string{"run"},
			Env:     append(runjob.Env(), runjob.MemoryLimit(mainContainer)),
			// Generating holds the repository's manifests and kustomize's trees of
			// them; git's own needs grow with the largest file.
			Resources:                runjob.Resources("250m", "1Gi"),
			VolumeMounts:             runjob.Mounts(volumes...),
			TerminationMessagePath:   runcontract.TerminationMessagePath,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			SecurityContext:          runjob.Restricted(),
		},
		Volumes: runjob.Volumes(volumes...),
	})
}
