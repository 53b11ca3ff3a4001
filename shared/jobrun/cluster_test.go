package jobrun

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

const (
	namespace = "kubeopera-provisioning"
	id        = runs.ID("0198a5ce-0000-7000-8000-000000000001")
	otherID   = runs.ID("0198a5ce-0000-7000-8000-000000000002")
)

var run = runs.Run{ID: id, Environment: "acme"}

func setup(objects ...runtime.Object) (*Cluster, *fake.Clientset) {
	client := fake.NewClientset(objects...)
	return New(client, namespace, runcontract.KindProvision, "cluster-provisioner"), client
}

func name(id runs.ID) string { return "provision-" + string(id) }

func rendered() *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name(id), Labels: map[string]string{"of": "the renderer"}}}
}

// foreign is metadata of an object that has our name and is not ours.
func foreign(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace}
}

func wantLabels(component string) map[string]string {
	return map[string]string{
		runcontract.LabelManagedBy: "cluster-provisioner", runcontract.LabelKind: "provision", runcontract.LabelRunID: string(id),
		runcontract.LabelEnvironment: "acme", runcontract.LabelComponent: component,
	}
}

func TestEnsureIsIdempotent(t *testing.T) {
	t.Parallel()
	c, client := setup()
	for range 2 {
		if err := c.EnsureCredential(t.Context(), run, map[string][]byte{"credentials": []byte("x")}); err != nil {
			t.Fatal(err)
		}
		if err := c.EnsureConfigMap(t.Context(), run, map[string]string{"run.json": "{}"}); err != nil {
			t.Fatal(err)
		}
		job, err := c.EnsureJob(t.Context(), run, rendered())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Own(t.Context(), run, job); err != nil {
			t.Fatal(err)
		}
	}
	secret, err := client.CoreV1().Secrets(namespace).Get(t.Context(), name(id)+"-credential", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantLabels("credential"), secret.Labels); diff != "" || !*secret.Immutable || secret.Type != corev1.SecretTypeOpaque || string(secret.Data["credentials"]) != "x" {
		t.Errorf("secret %+v\nlabels (-want +got):\n%s", secret, diff)
	}
	config, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name(id), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantLabels("run"), config.Labels); diff != "" || !*config.Immutable || config.Data["run.json"] != "{}" {
		t.Errorf("configmap %+v\nlabels (-want +got):\n%s", config, diff)
	}
	job, err := client.BatchV1().Jobs(namespace).Get(t.Context(), name(id), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantLabels("run"), job.Spec.Template.Labels); diff != "" || job.Labels["of"] != "the renderer" || job.Labels[runcontract.LabelRunID] != string(id) {
		t.Errorf("job labels %v, of its pods (-want +got):\n%s", job.Labels, diff)
	}
	owner := []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name(id), UID: job.UID}}
	for what, refs := range map[string][]metav1.OwnerReference{"configmap": config.OwnerReferences, "secret": secret.OwnerReferences} {
		if diff := cmp.Diff(owner, refs); diff != "" {
			t.Errorf("owner of the %s (-want +got):\n%s", what, diff)
		}
	}
	counts := map[string]int{}
	for _, a := range client.Actions() {
		counts[a.GetVerb()+" "+a.GetResource().Resource]++
		if a.GetVerb() == "patch" || a.GetResource().Resource == "jobs" && a.GetVerb() == "update" || a.GetResource().Resource == "secrets" && a.GetVerb() == "watch" {
			t.Errorf("%s %s is beyond our rights", a.GetVerb(), a.GetResource().Resource)
		}
	}
	if counts["update secrets"] != 1 || counts["update configmaps"] != 1 {
		t.Errorf("owners were written again: %v", counts)
	}
}

func TestEnsureTouchesNothingForeign(t *testing.T) {
	t.Parallel()
	c, client := setup(
		&corev1.Secret{ObjectMeta: foreign(name(id) + "-credential")},
		&corev1.ConfigMap{ObjectMeta: foreign(name(id)), Data: map[string]string{"precious": "data"}},
		&batchv1.Job{ObjectMeta: foreign(name(id))},
	)
	_, job := c.EnsureJob(t.Context(), run, rendered())
	for what, err := range map[string]error{
		"credential": c.EnsureCredential(t.Context(), run, nil), "configmap": c.EnsureConfigMap(t.Context(), run, nil), "job": job,
	} {
		if !errors.Is(err, runs.ErrGiveUp) || !errors.Is(err, runs.ErrKubernetes) || !errors.Is(err, errForeign) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	for _, a := range client.Actions() {
		if a.GetVerb() == "delete" || a.GetVerb() == "update" {
			t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

func TestEnsureConfigMapReplacesWhatAnotherReleaseRendered(t *testing.T) {
	t.Parallel()
	c, client := setup()
	for _, content := range []string{"old", "new"} {
		if err := c.EnsureConfigMap(t.Context(), run, map[string]string{"main.tf": content}); err != nil {
			t.Fatal(err)
		}
	}
	made, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name(id), metav1.GetOptions{})
	if err != nil || made.Data["main.tf"] != "new" {
		t.Errorf("got %v, %v", made.Data, err)
	}
}

func TestSizesAreChecked(t *testing.T) {
	t.Parallel()
	c, client := setup()
	big := strings.Repeat("x", 1<<19+1)
	for what, err := range map[string]error{
		"configmap":  c.EnsureConfigMap(t.Context(), run, map[string]string{"a": big, "b": big}),
		"credential": c.EnsureCredential(t.Context(), run, map[string][]byte{"a": []byte(big), "b": []byte(big)}),
	} {
		if !errors.Is(err, runs.ErrGiveUp) || !strings.Contains(err.Error(), "1048578 bytes") {
			t.Errorf("%s: got %v", what, err)
		}
		if err != nil && strings.Contains(err.Error(), "xxx") {
			t.Errorf("%s: the error shows the content", what)
		}
	}
	if len(client.Actions()) != 0 {
		t.Errorf("asked all the same: %v", client.Actions())
	}
}

func TestEnsureJobRefusesAnotherName(t *testing.T) {
	t.Parallel()
	c, _ := setup()
	job := rendered()
	job.Name = "something-else"
	if _, err := c.EnsureJob(t.Context(), run, job); !errors.Is(err, runs.ErrGiveUp) {
		t.Errorf("got %v", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	tests := []struct {
		name string
		err  error
		step error
	}{
		{"a quota", apierrors.NewForbidden(jobs, name(id), errors.New("exceeded quota: runs, requested: count/jobs.batch=1")), runs.ErrWait},
		{"a missing right", apierrors.NewForbidden(jobs, "", errors.New(`User "x" cannot create resource "jobs"`)), runs.ErrRefused},
		{"a bad Job", apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, name(id), nil), runs.ErrGiveUp},
		{"a server that is down", errors.New("connection refused"), nil},
		{"a server that is busy", apierrors.NewTooManyRequests("later", 1), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, client := setup()
			client.PrependReactor("create", "jobs", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			_, err := c.EnsureJob(t.Context(), run, rendered())
			if !errors.Is(err, runs.ErrKubernetes) || !strings.Contains(err.Error(), test.err.Error()) {
				t.Errorf("got %v", err)
			}
			for _, s := range []error{runs.ErrWait, runs.ErrRefused, runs.ErrGiveUp} {
				if errors.Is(err, s) != errors.Is(test.step, s) {
					t.Errorf("%v: matches %v: %t", err, s, errors.Is(err, s))
				}
			}
		})
	}
}

func TestOwnWithoutSecret(t *testing.T) {
	t.Parallel()
	c, _ := setup()
	if err := c.Own(t.Context(), run, rendered()); err != nil {
		t.Errorf("what is gone needs no owner: %v", err)
	}
}

func TestOwnReplacesADeadOwner(t *testing.T) {
	t.Parallel()
	c, client := setup()
	if err := c.EnsureConfigMap(t.Context(), run, nil); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []types.UID{"dead", "alive"} {
		job := rendered()
		job.UID = uid
		if err := c.Own(t.Context(), run, job); err != nil {
			t.Fatal(err)
		}
	}
	made, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name(id), metav1.GetOptions{})
	if err != nil || len(made.OwnerReferences) != 1 || made.OwnerReferences[0].UID != "alive" {
		t.Errorf("got %v, %v", made.OwnerReferences, err)
	}
}

func TestDeleteJob(t *testing.T) {
	t.Parallel()
	c, client := setup()
	if err := c.DeleteJob(t.Context(), id); err != nil {
		t.Errorf("a Job that is not there: %v", err)
	}
	deleted, ok := client.Actions()[0].(k8stesting.DeleteAction)
	if !ok || *deleted.GetDeleteOptions().PropagationPolicy != metav1.DeletePropagationForeground {
		t.Errorf("got %v, want a deletion in the foreground", client.Actions()[0])
	}
	if err := c.DeleteCredential(t.Context(), id); err != nil {
		t.Errorf("a Secret that is not there: %v", err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	secret := func(name string, edit func(map[string]string)) *corev1.Secret {
		l := wantLabels("credential")
		edit(l)
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: l, CreationTimestamp: at}}
	}
	c, _ := setup(
		secret(name(id)+"-credential", func(map[string]string) {}),
		secret("another-name", func(map[string]string) {}),
		secret(name(otherID)+"-outputs", func(l map[string]string) { l[runcontract.LabelComponent] = "outputs" }),
		secret("scaffold-"+string(otherID)+"-credential", func(l map[string]string) { l[runcontract.LabelKind] = "scaffold" }),
	)
	got, err := c.Credentials(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]runs.CredentialSecret{{Run: id, CreatedAt: at.Time}}, got); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
}

func outputs(id runs.ID, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: name(id) + "-outputs", Namespace: namespace,
		Labels: map[string]string{runcontract.LabelRunID: string(id), runcontract.LabelComponent: "outputs", runcontract.LabelKind: "provision"},
	}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	spoof := outputs(id, map[string]string{"progress.json": `{"phase":"done"}`})
	spoof.Name = "z-not-the-runs" // listed after the real one
	c, _ := setup(
		outputs(id, map[string]string{"progress.json": `{"phase":"apply","done":3,"total":9}`, "result.json": `{"outcome":"succ`, "kubeconfig": "apiVersion: v1"}),
		outputs(otherID, map[string]string{"result.json": `{"outcome":"failed","error_code":"terraform_apply_failed","of_a_newer_release":1}`}),
		spoof,
	)
	want := map[runs.ID]runs.Outputs{
		id:      {Progress: &runcontract.Progress{Phase: api.PhaseApply, Done: 3, Total: 9}},
		otherID: {Result: &runcontract.Result{Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeTerraformApply}},
	}
	got, err := c.Outputs(t.Context(), []runs.ID{id, otherID})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if got, err := c.Outputs(t.Context(), []runs.ID{otherID}); err != nil || len(got) != 1 {
		t.Errorf("of one run: %v, %v", got, err)
	}
	if got, err := c.Outputs(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("of no run: %v, %v", got, err)
	}
	many := make([]runs.ID, 0, 120)
	for range 120 {
		many = append(many, id)
	}
	if got, err := c.Outputs(t.Context(), many); err != nil || len(got) != 1 {
		t.Errorf("of many runs: %v, %v", got, err)
	}

	if data, err := c.Output(t.Context(), id, "kubeconfig"); err != nil || string(data) != "apiVersion: v1" {
		t.Errorf("kubeconfig: %q, %v", data, err)
	}
	_, key := c.Output(t.Context(), id, "nothing")
	_, secret := c.Output(t.Context(), "nobody", "kubeconfig")
	for what, err := range map[string]error{"no key": key, "no secret": secret} {
		if !errors.Is(err, runs.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}

	for range 2 {
		if err := c.DeleteOutputs(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := c.Outputs(t.Context(), []runs.ID{id, otherID}); err != nil || len(got) != 1 {
		t.Errorf("after the deletion: %v, %v", got, err)
	}
}

func FuzzParseOutputs(f *testing.F) {
	f.Add([]byte(`{"phase":"apply","done":3}`), []byte(`{"outcome":"succeeded"}`))
	f.Add([]byte(`null`), []byte(`[]`))
	f.Add([]byte(`{"done":1e99}`), []byte(`{"phase_seconds":{"x":"y"}}`))
	f.Fuzz(func(t *testing.T, progress, result []byte) {
		out := parseOutputs(&corev1.Secret{Data: map[string][]byte{"progress.json": progress, "result.json": result}})
		seen := runs.Observation{Job: &batchv1.Job{}, Outputs: &out}
		c := runs.Next(runs.Run{Status: api.StatusRunning, Phase: api.PhasePlan}, seen, time.Now(), time.Minute)
		if c.Status != api.StatusRunning || c.Progress.Done < 0 || c.Progress.Total < 0 {
			t.Errorf("%q and %q made %+v", progress, result, c)
		}
	})
}

func TestPing(t *testing.T) {
	t.Parallel()
	c, client := setup()
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	client.PrependReactor("list", "jobs", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, context.DeadlineExceeded })
	if err := c.Ping(t.Context()); !errors.Is(err, runs.ErrKubernetes) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
