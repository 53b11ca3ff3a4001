package aws_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// terraform is a working directory with a configuration, and how to run the
// real binary there.
type terraform struct {
	dir string
	env []string
}

// newTerraform copies testdata/name and skips the test where the binary or the
// mirror of its provider is missing.
func newTerraform(t *testing.T, name string) *terraform {
	t.Helper()
	tf := emptyTerraform(t)
	if err := os.CopyFS(tf.dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	return tf
}

// emptyTerraform is a working directory that is still to be made.
func emptyTerraform(t *testing.T) *terraform {
	t.Helper()
	account := theAccount(t)
	if _, err := exec.LookPath("terraform"); err != nil {
		skip.Missing(t, skip.Terraform, "terraform is not on PATH")
	}
	path, _ := os.LookupEnv("PATH")
	mirror, ok := os.LookupEnv("KUBEOPERA_PROVIDER_MIRROR")
	if !ok {
		skip.Missing(t, skip.ProviderMirror, "KUBEOPERA_PROVIDER_MIRROR is not set")
	}
	home := t.TempDir()
	rc := filepath.Join(home, "terraform.rc")
	write(t, rc, fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror))
	write(t, filepath.Join(home, "credentials"), fmt.Sprintf("[test]\naws_access_key_id = %s\naws_secret_access_key = %s\n", keyID, keySecret))
	return &terraform{dir: filepath.Join(home, "environment"), env: []string{
		"PATH=" + path, "HOME=" + home, "TMPDIR=" + home, "TF_CLI_CONFIG_FILE=" + rc, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0",
		"AWS_ENDPOINT_URL=" + account.URL(), "AWS_PROFILE=test", "AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(home, "credentials"),
	}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a command and returns its exit code and output.
func (tf *terraform) run(ctx context.Context, args ...string) (int, string, error) {
	cmd := exec.CommandContext(ctx, "terraform", append(args, "-no-color")...)
	cmd.Dir, cmd.Env = tf.dir, tf.env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return -1, out.String(), err
	}
	return cmd.ProcessState.ExitCode(), out.String(), nil
}

// must runs a command that has to end with one of the codes.
func (tf *terraform) must(t *testing.T, code int, args ...string) string {
	t.Helper()
	started := time.Now()
	got, out, err := tf.run(t.Context(), args...)
	t.Logf("terraform %s: %s", args[0], time.Since(started).Round(100*time.Millisecond))
	if err != nil || got != code {
		t.Fatalf("terraform %s: exit code %d, want %d, %v\n%s", strings.Join(args, " "), got, code, err, out)
	}
	return out
}

// initialize makes the state bucket and runs init.
func (tf *terraform) initialize(t *testing.T, bucket string) {
	t.Helper()
	client := s3.NewFromConfig(config(t), func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{
		Bucket: &bucket, CreateBucketConfiguration: &s3types.CreateBucketConfiguration{LocationConstraint: region},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: &bucket, VersioningConfiguration: &s3types.VersioningConfiguration{Status: s3types.BucketVersioningStatusEnabled},
	}); err != nil {
		t.Fatal(err)
	}
	tf.must(t, 0, "init", "-backend-config=bucket="+bucket, "-backend-config=region="+region, "-backend-config=use_path_style=true")
}

func TestTerraformHonoursTheLock(t *testing.T) {
	tf, account := newTerraform(t, "vpc"), theAccount(t)
	bucket := "terraform-state-lock"
	tf.initialize(t, bucket)
	const lock = `{"ID":"0f6e6f5e-5d2f-0f6e-1c2f-000000000001","Operation":"OperationTypeApply","Who":"somebody@else","Version":"1.11.4","Created":"2026-11-30T00:00:00Z","Path":"x"}`
	if err := account.S3().PutObject(bucket, "terraform.tfstate.tflock", []byte(lock)); err != nil {
		t.Fatal(err)
	}
	if out := tf.must(t, 1, "apply", "-auto-approve"); !strings.Contains(out, "Error acquiring the state lock") || !strings.Contains(out, "somebody@else") {
		t.Errorf("apply under a lock:\n%s", out)
	}
	tf.must(t, 0, "force-unlock", "-force", "0f6e6f5e-5d2f-0f6e-1c2f-000000000001")
	if keys, err := account.S3().Keys(bucket, ""); err != nil || len(keys) != 0 {
		t.Errorf("objects after unlock: %v, %v", keys, err)
	}
}

func TestTerraformMeetsFaults(t *testing.T) {
	tf, account := newTerraform(t, "vpc"), theAccount(t)
	bucket := "terraform-state-faults"
	tf.initialize(t, bucket)
	add := func(f faults.Fault) {
		t.Helper()
		id, err := account.Faults().Add(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { account.Faults().Remove(id) })
	}
	// The provider's own diagnostic tells what EC2 said.
	add(faults.Fault{
		Service: "ec2", Operation: "CreateVpc", Kind: faults.KindError,
		Error: &protocol.Error{Status: 403, Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation."},
	})
	if out := tf.must(t, 1, "apply", "-auto-approve"); !strings.Contains(out, "UnauthorizedOperation: You are not authorized") {
		t.Errorf("apply without rights:\n%s", out)
	}
	// A connection that drops, and a lost answer to a harmless call, are retried unseen.
	add(faults.Fault{Service: "ec2", Operation: "CreateVpc", Kind: faults.KindDrop})
	add(faults.Fault{Service: "ec2", Operation: "DescribeVpcAttribute", Kind: faults.KindLostAnswer})
	tf.must(t, 0, "apply", "-auto-approve")
	// The lost answer to the lock's PUT is repeated and meets its own lock.
	add(faults.Fault{Service: "s3", Operation: "PutObject", Resource: ".tflock", Kind: faults.KindLostAnswer})
	if out := tf.must(t, 1, "plan"); !strings.Contains(out, "Error acquiring the state lock") {
		t.Errorf("plan with its own lock:\n%s", out)
	}
	if keys, err := account.S3().Keys(bucket, ""); err != nil || !slices.Contains(keys, "terraform.tfstate.tflock") {
		t.Errorf("objects: %v, %v", keys, err)
	}
}
