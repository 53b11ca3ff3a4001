package kube

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/runcontract"
)

const testID = "01938f3a-1c2d-7abc-8def-0123456789ab"

func spec(change func(*Spec)) Spec {
	s := Spec{
		ID:            testID,
		Environment:   "acme-prod",
		Namespace:     "kubeopera-provisioning",
		ManagedBy:     "cluster-provisioner",
		Modules:       &Modules{RepositoryURL: "https://git.example.com/platform/gitops-iac.git", RepositoryRef: "v1.2.3"},
		Timeout:       90 * time.Minute,
		GracePeriod:   20 * time.Minute,
		StartDeadline: 10 * time.Minute,
	}
	if change != nil {
		change(&s)
	}
	return s
}

func variants() map[string]Spec {
	return map[string]Spec{
		"plain":       spec(nil),
		"rescue":      spec(func(s *Spec) { s.RescuedRun = "01938f3a-1c2d-7abc-8def-0123456789aa" }),
		"ca":          spec(func(s *Spec) { s.Modules.CAConfigMap = "modules-ca" }),
		"auth":        spec(func(s *Spec) { s.Modules.AuthSecret = "modules-auth" }),
		"ca_and_auth": spec(func(s *Spec) { s.Modules.CAConfigMap, s.Modules.AuthSecret = "modules-ca", "modules-auth" }),
		"no_modules":  spec(func(s *Spec) { s.Modules = nil }),
	}
}

func TestJobsAreTheGoldenOnes(t *testing.T) {
	t.Parallel()
	for name, s := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := yaml.Marshal(TerraformJob(s))
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "job_"+name+".yaml", got)
		})
	}
}

func TestTheSameSpecGivesTheSameJob(t *testing.T) {
	t.Parallel()
	s := variants()["ca_and_auth"]
	if diff := cmp.Diff(TerraformJob(s), TerraformJob(s)); diff != "" {
		t.Errorf("two Jobs of one spec differ:\n%s", diff)
	}
}

// TestPodSecurityRestricted asks the policy of Kubernetes itself, so that a
// namespace which enforces it takes the pod.
func TestPodSecurityRestricted(t *testing.T) {
	t.Parallel()
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restrictedLevel := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	refusals := func(pod *corev1.PodTemplateSpec) []string {
		var reasons []string
		for _, r := range evaluator.EvaluatePod(restrictedLevel, &pod.ObjectMeta, &pod.Spec) {
			if !r.Allowed {
				reasons = append(reasons, r.ForbiddenReason+": "+r.ForbiddenDetail)
			}
		}
		return reasons
	}
	for name, s := range variants() {
		pod := TerraformJob(s).Spec.Template
		if got := refusals(&pod); len(got) > 0 {
			t.Errorf("%s: refused: %s", name, strings.Join(got, "; "))
		}
	}
	// The evaluator must be able to refuse.
	weak := TerraformJob(spec(nil)).Spec.Template
	weak.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true)
	if len(refusals(&weak)) == 0 {
		t.Error("a pod that allows privilege escalation was not refused")
	}
}

func TestSecurityOfThePod(t *testing.T) {
	t.Parallel()
	for name, s := range variants() {
		pod := TerraformJob(s).Spec.Template.Spec
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: the service account's token is mounted everywhere", name)
		}
		if pod.HostNetwork || pod.HostPID || pod.HostIPC {
			t.Errorf("%s: the pod shares a namespace of its node", name)
		}
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			sc := c.SecurityContext
			if !*sc.ReadOnlyRootFilesystem || !*sc.RunAsNonRoot || *sc.AllowPrivilegeEscalation {
				t.Errorf("%s: container %s: security context %+v", name, c.Name, sc)
			}
			if _, limited := c.Resources.Limits[corev1.ResourceCPU]; limited {
				t.Errorf("%s: container %s has a CPU limit", name, c.Name)
			}
			if c.Resources.Limits.Memory().Cmp(*c.Resources.Requests.Memory()) != 0 {
				t.Errorf("%s: container %s: memory limit is not its request", name, c.Name)
			}
			if !strings.HasPrefix(c.Image, terraformRunnerImage) || strings.HasSuffix(c.Image, ":latest") {
				t.Errorf("%s: container %s: image is not the pinned one", name, c.Name)
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					t.Errorf("%s: container %s: a secret in the environment, where every child sees it", name, c.Name)
				}
			}
		}
	}
}

// TestVolumesReachOnlyTheirContainer keeps the run's credential and token out of
// the clone, and the repository's credential out of the runner.
func TestVolumesReachOnlyTheirContainer(t *testing.T) {
	t.Parallel()
	pod := TerraformJob(variants()["ca_and_auth"]).Spec.Template.Spec
	names := func(mounts []corev1.VolumeMount) []string {
		var out []string
		for _, m := range mounts {
			out = append(out, m.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"workspace", "tmp", "modules-ca", "modules-auth"}, names(pod.InitContainers[0].VolumeMounts)); diff != "" {
		t.Errorf("volumes of the clone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"workspace", "environment", "credential", "service-account-token", "tmp"}, names(pod.Containers[0].VolumeMounts)); diff != "" {
		t.Errorf("volumes of the runner (-want +got):\n%s", diff)
	}
	for _, m := range slices.Concat(pod.InitContainers[0].VolumeMounts, pod.Containers[0].VolumeMounts) {
		if writable := m.Name == "workspace" || m.Name == "tmp"; m.ReadOnly == writable {
			t.Errorf("mount %s: read-only is %t", m.Name, m.ReadOnly)
		}
	}
}

// TestARescuedStateIsAllThatIsMounted: the other run's outputs hold a kubeconfig too.
func TestARescuedStateIsAllThatIsMounted(t *testing.T) {
	t.Parallel()
	pod := TerraformJob(variants()["rescue"]).Spec.Template.Spec
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "rescue" })
	if i < 0 {
		t.Fatal("no such volume")
	}
	secret := pod.Volumes[i].Secret
	if secret.SecretName != "provision-01938f3a-1c2d-7abc-8def-0123456789aa-outputs" || !*secret.Optional || len(secret.Items) != 1 || secret.Items[0].Key != runcontract.KeyErroredState {
		t.Errorf("the volume is %+v, want the one key of that run's outputs, if it is there", secret)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "rescue" }); mounted != (c.Name == mainContainer) {
			t.Errorf("container %s: mounted is %t", c.Name, mounted)
		}
	}
}

// TestDeadlinesNest: Terraform stops within the grace period, the runner within
// its deadline, and the pod's own deadline is beyond both.
func TestDeadlinesNest(t *testing.T) {
	t.Parallel()
	s := spec(nil)
	job := TerraformJob(s)
	pod := job.Spec.Template.Spec
	if got := time.Duration(*pod.ActiveDeadlineSeconds) * time.Second; got <= s.StartDeadline+s.Timeout+s.GracePeriod {
		t.Errorf("pod deadline %s, want more than start, timeout and grace together", got)
	}
	if job.Spec.ActiveDeadlineSeconds != nil {
		t.Error("the Job has a deadline, which would delete the pod and its log")
	}
	if got := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; got != s.GracePeriod {
		t.Errorf("grace period %s, want %s", got, s.GracePeriod)
	}
	if got := time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second; got < 24*time.Hour {
		t.Errorf("a finished Job is kept for %s, want at least a day", got)
	}
}

// TestJobRoundTrips: what is sent to the API server is what was built.
func TestJobRoundTrips(t *testing.T) {
	t.Parallel()
	job := TerraformJob(spec(nil))
	data, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	again := job.DeepCopy()
	again.Spec.Template.Spec = corev1.PodSpec{}
	if err := json.Unmarshal(data, again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(job, again); diff != "" {
		t.Errorf("after a round trip (-want +got):\n%s", diff)
	}
}
