package deploy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/provisioner/internal/kube"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
)

const (
	namespace = "kubeopera-provisioning"
	ownRun    = "01938f3a-1c2d-7abc-8def-0123456789ab"
	otherRun  = "01938f3a-1c2d-7abc-8def-0123456789ac"
)

// TestManifestsInACluster installs the manifests in a real API server and acts
// as the service and as a runner.
func TestManifestsInACluster(t *testing.T) {
	t.Parallel()
	config := controlplanetest.Start(t, controlplane.Config{}).RESTConfig()
	controlplanetest.Install(t, config, objects(t))
	admin := kubernetes.NewForConfigOrDie(config)

	service := controlplanetest.As(t, config, "kubeopera-core", "cluster-provisioner", nil)
	job := kube.TerraformJob(kube.Spec{
		ID: ownRun, Environment: "acme-prod", Namespace: namespace, ManagedBy: "cluster-provisioner",
		Modules:    &kube.Modules{RepositoryURL: "https://git.example.com/x.git", RepositoryRef: "v1"},
		RescuedRun: otherRun, // all that a Job can have
		Timeout:    time.Hour, GracePeriod: time.Minute, StartDeadline: time.Minute,
	})
	if _, err := service.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Fatalf("the service cannot create a run's Job: %v", err)
	}
	pod := podOf(t, admin, job, job.Name+"-x7k2p")
	runner := controlplanetest.As(t, config, namespace, "terraform-runner", pod)
	unbound := controlplanetest.As(t, config, namespace, "terraform-runner", nil)

	t.Run("the service may do its work and nothing else", func(t *testing.T) {
		ctx := t.Context()
		allowed := map[string]error{
			"list pods":      second(service.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})),
			"list secrets":   second(service.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})),
			"list events":    second(service.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})),
			"delete pods":    deleted(service.CoreV1().Pods(namespace).Delete(ctx, "not-there", metav1.DeleteOptions{})),
			"delete secrets": deleted(service.CoreV1().Secrets(namespace).Delete(ctx, "not-there", metav1.DeleteOptions{})),
			"create secrets": second(service.CoreV1().Secrets(namespace).Create(ctx, secret("provision-x-credential"), metav1.CreateOptions{})),
		}
		for what, err := range allowed {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		refused := map[string]error{
			"read secrets elsewhere": second(service.CoreV1().Secrets("kubeopera-core").List(ctx, metav1.ListOptions{})),
			"create pods":            second(service.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})),
			"watch secrets":          watchSecrets(ctx, service),
			"create events": second(service.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: namespace}, InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: namespace, Name: "x"},
			}, metav1.CreateOptions{})),
		}
		for what, err := range refused {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v, want forbidden", what, err)
			}
		}
	})

	// The API server takes the policy up a moment after it was created; before
	// that nothing is refused by it.
	own := runcontract.OutputsSecretName(runcontract.KindProvision, ownRun)
	waitForPolicy(t, admin, runner)

	create := func(client kubernetes.Interface, s *corev1.Secret) error {
		return second(client.CoreV1().Secrets(namespace).Create(t.Context(), s, metav1.CreateOptions{}))
	}
	labelled := func(s *corev1.Secret, id string) *corev1.Secret {
		s.Labels = map[string]string{runcontract.LabelRunID: id}
		return s
	}
	t.Run("a runner writes its own outputs", func(t *testing.T) {
		if err := create(runner, labelled(secret(own), ownRun)); err != nil {
			t.Fatalf("create: %v", err)
		}
		if _, err := runner.CoreV1().Secrets(namespace).Update(t.Context(), labelled(secret(own), ownRun), metav1.UpdateOptions{}); err != nil {
			t.Errorf("update: %v", err)
		}
	})
	t.Run("a runner writes nothing else", func(t *testing.T) {
		other := runcontract.OutputsSecretName(runcontract.KindProvision, otherRun)
		if err := create(admin, secret(other)); err != nil {
			t.Fatal(err)
		}
		token := secret(own + "-outputs")
		token.Type, token.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "terraform-runner"}
		relabelled := labelled(secret(own), otherRun)
		cases := map[string]struct {
			err  error
			says string
		}{
			"another type":              {create(runner, token), "Opaque"},
			"another name":              {create(runner, secret("provision-"+ownRun+"-credential")), "outputs Secrets only"},
			"another run's outputs":     {create(runner, secret("provision-01938f3a-1c2d-7abc-8def-0123456789ad-outputs")), "its own run's"},
			"a prefix of its name":      {create(runner, secret("provision-outputs")), "its own run's"},
			"another run's, by update":  {second(runner.CoreV1().Secrets(namespace).Update(t.Context(), secret(other), metav1.UpdateOptions{})), "its own run's"},
			"another run's label":       {second(runner.CoreV1().Secrets(namespace).Update(t.Context(), relabelled, metav1.UpdateOptions{})), "run-id"},
			"with a token of no pod":    {second(unbound.CoreV1().Secrets(namespace).Update(t.Context(), secret(own), metav1.UpdateOptions{})), "bound to its pod"},
			"a read of its own outputs": {second(runner.CoreV1().Secrets(namespace).Get(t.Context(), own, metav1.GetOptions{})), "cannot get"},
			"a patch":                   {second(runner.CoreV1().Secrets(namespace).Patch(t.Context(), own, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})), "cannot patch"},
			"a ConfigMap":               {second(runner.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: own}}, metav1.CreateOptions{})), "cannot create"},
		}
		for what, c := range cases {
			if !apierrors.IsForbidden(c.err) && !apierrors.IsInvalid(c.err) || !strings.Contains(c.err.Error(), c.says) {
				t.Errorf("%s: error %v, want a refusal that says %q", what, c.err, c.says)
			}
		}
	})
}

// podOf creates the pod that the Job controller would; it is not running here.
func podOf(tb testing.TB, admin kubernetes.Interface, job *batchv1.Job, name string) *corev1.Pod {
	tb.Helper()
	pod, err := admin.CoreV1().Pods(namespace).Create(tb.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: job.Spec.Template.Labels, Annotations: job.Spec.Template.Annotations},
		Spec:       job.Spec.Template.Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("the namespace refuses a run's pod: %v", err)
	}
	return pod
}

// waitForPolicy tries a write that only the policy refuses until it does.
func waitForPolicy(tb testing.TB, admin, runner kubernetes.Interface) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := runner.CoreV1().Secrets(namespace).Create(ctx, secret("not-allowed"), metav1.CreateOptions{})
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return
		}
		if err == nil {
			err = admin.CoreV1().Secrets(namespace).Delete(ctx, "not-allowed", metav1.DeleteOptions{})
		}
		if err != nil {
			tb.Fatal(errors.Join(errors.New("waiting for the admission policy"), err))
		}
		<-tick.C
	}
}

func watchSecrets(ctx context.Context, client kubernetes.Interface) error {
	w, err := client.CoreV1().Secrets(namespace).Watch(ctx, metav1.ListOptions{})
	if err == nil {
		w.Stop()
	}
	return err
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Type: corev1.SecretTypeOpaque}
}

// deleted is the error of a delete that found nothing to delete, which is none.
func deleted(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// second is the error of a call that gives a value as well.
func second[T any](_ T, err error) error { return err }
