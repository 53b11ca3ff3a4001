package v1alpha1_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

// samples are the files of a folder of testdata.
func samples(tb testing.TB, folder string) map[string][]byte {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil || len(names) == 0 {
		tb.Fatalf("no samples in %s: %v", folder, err)
	}
	out := make(map[string][]byte)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		out[filepath.Base(name)] = data
	}
	return out
}

func decode(tb testing.TB, data []byte) *v1alpha1.Environment {
	tb.Helper()
	env, err := v1alpha1.Decode(data)
	if err != nil {
		tb.Fatal(err)
	}
	return env
}

// load is the rest of a file's way after Decode.
func load(data []byte) error {
	env, err := v1alpha1.Decode(data)
	if err != nil {
		return err
	}
	env.SetDefaults()
	return env.Validate()
}

func TestGoodSamples(t *testing.T) {
	t.Parallel()
	for name, data := range samples(t, "ok") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := decode(t, data)
			if err := env.Validate(); err != nil {
				t.Errorf("without defaults: %v", err)
			}
			env.SetDefaults()
			if err := env.Validate(); err != nil {
				t.Errorf("with defaults: %v", err)
			}
			again := env.DeepCopy()
			again.SetDefaults()
			if diff := cmp.Diff(env, again); diff != "" {
				t.Errorf("defaults set again (-once +twice):\n%s", diff)
			}
			text, err := json.Marshal(env)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(env, decode(t, text)); diff != "" {
				t.Errorf("written and read again (-want +got):\n%s", diff)
			}
		})
	}
}

// A bad sample's first line names the field that must be complained about.
func TestBadSamples(t *testing.T) {
	t.Parallel()
	for name, data := range samples(t, "bad") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, _, _ := strings.Cut(string(data), "\n")
			want := strings.TrimPrefix(line, "# ")
			err := load(data)
			var errs v1alpha1.FieldErrors
			if !errors.As(err, &errs) || !errors.Is(err, v1alpha1.ErrInvalid) {
				t.Fatalf("want FieldErrors, got %v", err)
			}
			if !slices.ContainsFunc(errs, func(e v1alpha1.FieldError) bool { return e.Field == want }) {
				t.Errorf("%s is not named: %v", want, err)
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the message does not name %s: %v", want, err)
			}
		})
	}
}

func TestValidateNamesAllWrongFields(t *testing.T) {
	t.Parallel()
	env := decode(t, samples(t, "ok")["cluster-ha.yaml"])
	env.Spec.Cluster.Region = "nowhere"
	env.Spec.Cluster.Workers.Labels = map[string]string{"x": "-"}
	env.Spec.Kubernetes.KubernetesInstaller = "k3s"
	env.Spec.SSHConfig.Bastion.Host = "h:0"
	var errs v1alpha1.FieldErrors
	if err := env.Validate(); !errors.As(err, &errs) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range errs {
		got = append(got, e.Field)
	}
	slices.Sort(got)
	want := []string{
		"spec.auth.sshConfig.bastion.host", "spec.cluster.region", "spec.cluster.workers.labels",
		"spec.kubernetes.installer", "spec.kubernetes.installer", // unknown, and none that makes clusters
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}
