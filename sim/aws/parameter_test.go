package aws_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/aws/gateway"
)

// A node overwrites a parameter that Terraform seeded: Terraform sees no change,
// and what the node wrote is in no state and no plan.
func TestTerraformDoesNotLearnWhatNodesWrite(t *testing.T) {
	const prefix, canary = "/kubeopera/ssm-test/", "canary-a81f9c"
	tf, account := newTerraform(t, "ssm"), theAccount(t)
	bucket := "terraform-state-ssm"
	tf.initialize(t, bucket)
	noCanary := func(what string, data []byte) {
		t.Helper()
		if len(data) == 0 || bytes.Contains(data, []byte(canary)) {
			t.Errorf("%s, of %d bytes, has the canary", what, len(data))
		}
	}

	tf.must(t, 0, "apply", "-auto-approve")
	want := []string{
		prefix + "admin_kubeconfig", prefix + "cluster_state", prefix + "control_plane_joined/0", prefix + "control_plane_joined/1",
		prefix + "join_token", prefix + "plain",
	}
	if diff := cmp.Diff(want, account.SSM().Names(region, prefix)); diff != "" {
		t.Fatalf("parameters (-want +got):\n%s", diff)
	}
	seeded, _ := account.SSM().Get(region, prefix+"join_token")
	if seeded.Value != "PENDING" || seeded.Type != "SecureString" || seeded.Tier != "Standard" || seeded.Tags["note"] != "one" {
		t.Errorf("seeded: %+v", seeded)
	}
	if image := tf.must(t, 0, "output", "-raw", "image"); !strings.HasPrefix(image, "ami-") {
		t.Errorf("public parameter: %s", image)
	}

	file := filepath.Join(t.TempDir(), "value")
	write(t, file, canary)
	for _, name := range []string{"join_token", "admin_kubeconfig", "control_plane_joined/0"} {
		if _, err := cli(t.Context(), t, keyID, account.URL(), "ssm", "put-parameter", "--name", prefix+name, "--type", "SecureString",
			"--tier", "Standard", "--overwrite", "--value", "file://"+file); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second one after a refresh was written
		noCanary("output of plan", []byte(tf.must(t, 0, "plan", "-detailed-exitcode", "-out=plan")))
		for name, data := range planFiles(t, filepath.Join(tf.dir, "plan")) {
			noCanary("plan's "+name, data)
		}
		noCanary("output of apply", []byte(tf.must(t, 0, "apply", "-auto-approve", "-refresh-only")))
		state, err := account.S3().Object(bucket, "terraform.tfstate")
		if err != nil {
			t.Fatal(err)
		}
		noCanary("state", state)
	}
	// Tags may change without a new value.
	noCanary("output of apply", []byte(tf.must(t, 0, "apply", "-auto-approve", "-var=note=two")))
	if got, _ := account.SSM().Get(region, prefix+"join_token"); got.Value != canary || got.Tags["note"] != "two" {
		t.Errorf("after a change of tags: %+v", got)
	}
	state, err := account.S3().Object(bucket, "terraform.tfstate")
	if err != nil {
		t.Fatal(err)
	}
	noCanary("state", state)
	tf.must(t, 0, "destroy", "-auto-approve")
	if left := account.SSM().Names(region, prefix); len(left) != 0 {
		t.Errorf("after destroy: %v", left)
	}
	throttled := 0
	for _, c := range account.Calls(gateway.CallFilter{Service: "ssm"}) {
		if c.ErrorCode == "ThrottlingException" {
			throttled++
		}
	}
	t.Logf("%d calls were throttled", throttled)
}

// planFiles reads what is in a saved plan, whose archive is compressed.
func planFiles(t *testing.T, path string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(files["tfplan"]) == 0 || len(files["tfstate"]) == 0 {
		t.Fatalf("the plan has %d files", len(files))
	}
	return files
}

func TestAWSCLIReadsParameters(t *testing.T) {
	t.Parallel()
	account := theAccount(t)
	if err := account.SSM().Put(region, "/cli/secret", "value"); err != nil {
		t.Fatal(err)
	}
	out, err := cli(t.Context(), t, keyID, account.URL(), "ssm", "get-parameters", "--names", "/cli/secret", "/cli/none", "--with-decryption",
		"--query", "[Parameters[0].Value,InvalidParameters[0]]", "--output", "text")
	if err != nil || strings.Join(strings.Fields(out), " ") != "value /cli/none" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := cli(t.Context(), t, keyID, account.URL(), "ssm", "put-parameter", "--name", "/cli/secret", "--type", "SecureString", "--value", "x"); err == nil || !strings.Contains(err.Error(), "ParameterAlreadyExists") {
		t.Errorf("put without overwrite: %v", err)
	}
	if _, err := ssm.NewFromConfig(config(t)).DescribeDocument(t.Context(), &ssm.DescribeDocumentInput{Name: new("none")}); err == nil || !strings.Contains(err.Error(), "InvalidDocument") {
		t.Errorf("an operation of the emulator: %v", err)
	}
}
