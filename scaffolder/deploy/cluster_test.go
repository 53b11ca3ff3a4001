package deploy

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/scaffolder/internal/kube"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
)

const (
	namespace = "kubeopera-provisioning"
	ownRun    = "01938f3a-1c2d-7abc-8def-0123456789ab"
	otherRun  = "01938f3a-1c2d-7abc-8def-0123456789ac"
)

// provisioners are what cluster-provisioner's deployment makes, which comes first.
func provisioners(tb testing.TB) []runtime.Object {
	tb.Helper()
	return controlplanetest.Objects(tb, os.DirFS("../../provisioner/deploy"))
}

// TestManifestsInACluster installs both services' manifests in a real API server
// and acts as this service and as runners of both.
func TestManifestsInACluster(t *testing.T) {
	t.Parallel()
	config := controlplanetest.Start(t, controlplane.Config{}).RESTConfig()
	controlplanetest.Install(t, config, append(provisioners(t), objects(t)...))
	admin := kubernetes.NewForConfigOrDie(config)
	service := controlplanetest.As(t, config, "kubeopera-core", "gitops-scaffolder", nil)

	job := kube.ScaffoldJob(kube.Spec{
		ID: ownRun, Environment: "acme-prod", Namespace: namespace, ManagedBy: "gitops-scaffolder",
		CAConfigMap: "git-ca", Timeout: time.Hour, GracePeriod: time.Minute, StartDeadline: time.Minute,
	})
	if _, err := service.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Fatalf("the service cannot create a run's Job: %v", err)
	}
	pod, err := admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: job.Name + "-x7k2p", Labels: job.Spec.Template.Labels}, Spec: job.Spec.Template.Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("the namespace refuses a run's pod: %v", err)
	}
	runner := controlplanetest.As(t, config, namespace, "scaffold-runner", pod)

	create := func(name, id string) error {
		_, err := runner.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{runcontract.LabelRunID: id}}, Type: corev1.SecretTypeOpaque,
		}, metav1.CreateOptions{})
		return err
	}
	// The API server takes the policy up a moment after it was created.
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for create("not-allowed", ownRun) == nil {
		if err := admin.CoreV1().Secrets(namespace).Delete(t.Context(), "not-allowed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-deadline:
			t.Fatal("the admission policy refuses nothing")
		case <-tick.C:
		}
	}
	if err := create(runcontract.OutputsSecretName(runcontract.KindScaffold, ownRun), ownRun); err != nil {
		t.Errorf("a runner cannot write its own outputs: %v", err)
	}
	for what, c := range map[string]struct{ name, id, says string }{
		"another run's outputs":            {runcontract.OutputsSecretName(runcontract.KindScaffold, otherRun), otherRun, "its own run's"},
		"outputs of a provisioning run":    {runcontract.OutputsSecretName(runcontract.KindProvision, ownRun), ownRun, "its own run's"},
		"a credential":                     {runcontract.CredentialSecretName(runcontract.KindScaffold, ownRun), ownRun, "outputs Secrets only"},
		"every run's outputs, by its name": {"scaffold-outputs", ownRun, "its own run's"},
		"its outputs with another's label": {runcontract.OutputsSecretName(runcontract.KindScaffold, ownRun), otherRun, "run-id"},
	} {
		if err := create(c.name, c.id); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want a refusal that says %q", what, err, c.says)
		}
	}
	for what, err := range map[string]error{
		"a runner reads its outputs": func() error {
			_, err := runner.CoreV1().Secrets(namespace).Get(t.Context(), runcontract.OutputsSecretName(runcontract.KindScaffold, ownRun), metav1.GetOptions{})
			return err
		}(),
		"the service reads secrets elsewhere": func() error {
			_, err := service.CoreV1().Secrets("kubeopera-core").List(t.Context(), metav1.ListOptions{})
			return err
		}(),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want forbidden", what, err)
		}
	}
}
