package kube

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/golden"
)

func spec() Spec {
	return Spec{
		ID: "01938f3a-1c2d-7abc-8def-0123456789ab", Environment: "acme-prod", Namespace: "kubeopera-provisioning", ManagedBy: "gitops-scaffolder",
		CAConfigMap: "git-ca", Timeout: time.Hour, GracePeriod: 2 * time.Minute, StartDeadline: 10 * time.Minute,
	}
}

func TestJobIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	got, err := yaml.Marshal(ScaffoldJob(spec()))
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "job.yaml", got)
}

// TestPodSecurityRestricted asks the policy of Kubernetes itself, so that a
// namespace which enforces it takes the pod.
func TestPodSecurityRestricted(t *testing.T) {
	t.Parallel()
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	pod := ScaffoldJob(spec()).Spec.Template
	level := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	for _, r := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			t.Errorf("refused: %s: %s", r.ForbiddenReason, r.ForbiddenDetail)
		}
	}
	if *pod.Spec.AutomountServiceAccountToken {
		t.Error("the service account's token is mounted everywhere")
	}
	for _, c := range pod.Spec.Containers {
		if !*c.SecurityContext.ReadOnlyRootFilesystem || !strings.HasPrefix(c.Image, scaffoldRunnerImage) {
			t.Errorf("container %s: root file system or image are not as they should be", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if writable := m.Name == "workspace" || m.Name == "tmp"; m.ReadOnly == writable {
				t.Errorf("mount %s: read-only is %t", m.Name, m.ReadOnly)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				t.Errorf("%s: a secret in the environment, where every child sees it", e.Name)
			}
		}
	}
}

// TestWithoutACAThereIsNoVolumeOfIt, since a ConfigMap that is not there would
// keep the pod from starting.
func TestWithoutACAThereIsNoVolumeOfIt(t *testing.T) {
	t.Parallel()
	s := spec()
	s.CAConfigMap = ""
	for _, v := range ScaffoldJob(s).Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil && v.Name != "run" {
			t.Errorf("volume %+v", corev1.Volume{Name: v.Name})
		}
	}
}
