package aws_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim/aws"
	"github.com/kubeopera/platform/sim/aws/gateway"
)

const (
	roleName   = "provisioner"
	externalID = "acme-external"
)

// theRole makes the role that the test's user may assume, once.
func theRole(t *testing.T) string {
	t.Helper()
	theAccount(t)
	arn, err := shared.role()
	if err != nil {
		t.Fatal(err)
	}
	return arn
}

func createRole() (string, error) {
	return shared.account.CreateRole(context.Background(), aws.Role{
		Path: "/teams/platform/", Name: roleName, Principals: []string{userARN}, ExternalID: externalID,
	})
}

// profile is the environment that makes an AWS tool use a credential as a run
// does, with the account as its endpoint.
func profile(t *testing.T, c cloudcred.Credential) []string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range c.Files(region, "acme-prod") {
		write(t, filepath.Join(dir, name), string(content))
	}
	return []string{
		"AWS_PROFILE=" + runcontract.CredentialProfile, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE=" + filepath.Join(dir, runcontract.CredentialConfigFile),
		"AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(dir, runcontract.CredentialKeysFile),
		"AWS_ENDPOINT_URL=" + theAccount(t).URL(),
		// The Go SDK builds a profile's STS client before it reads AWS_ENDPOINT_URL.
		"AWS_ENDPOINT_URL_STS=" + theAccount(t).URL(),
	}
}

// use lets Terraform have a credential as a run has it.
func (tf *terraform) use(t *testing.T, c cloudcred.Credential) {
	t.Helper()
	tf.env = append(tf.env, profile(t, c)...)
}

// A run's credential is a role whose sessions end sooner than an apply. Provider
// and state backend renew them by themselves; keys of one session do not last.
func TestTerraformRenewsTheSessionsOfARole(t *testing.T) {
	tf, account := newTerraform(t, "role"), theAccount(t)
	base := cloudcred.Credential{Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: keyID, Secret: keySecret}}
	role := cloudcred.AssumeRole{RoleARN: theRole(t), ExternalID: externalID, Base: base}
	const lifetime = 4 * time.Second
	account.STS().ShortenSessions(lifetime)
	t.Cleanup(func() { account.STS().ShortenSessions(0) })

	const bucket = "terraform-state-role"
	tf.use(t, cloudcred.Credential{Kind: cloudcred.KindAssumeRole, AssumeRole: &role})
	tf.initialize(t, bucket)
	began := time.Now()
	tf.must(t, 0, "apply", "-auto-approve")
	if took := time.Since(began); took < 2*lifetime {
		t.Fatalf("the apply took %s: too short to need a second session", took)
	}
	if state, err := account.S3().Object(bucket, "terraform.tfstate"); err != nil || !strings.Contains(string(state), "aws_subnet") {
		t.Errorf("state: %v, %s", err, state)
	}
	for _, service := range []string{"ec2", "s3"} {
		sessions, others, refused := callers(account, service, began)
		t.Logf("%s: calls by %d sessions", service, len(sessions))
		if len(sessions) < 2 {
			t.Errorf("%s: calls by %d sessions, want several", service, len(sessions))
		}
		if others > 0 || refused > 0 {
			t.Errorf("%s: %d calls by others than the role, %d were refused", service, others, refused)
		}
	}

	// The control: keys of a session that has ended are of no use to Terraform.
	session, err := sts.NewFromConfig(config(t)).AssumeRole(t.Context(), &sts.AssumeRoleInput{
		RoleArn: &role.RoleARN, RoleSessionName: sdk.String("control"), ExternalId: sdk.String(externalID),
	})
	if err != nil {
		t.Fatal(err)
	}
	keys := session.Credentials
	tf.use(t, cloudcred.Credential{Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{
		ID: *keys.AccessKeyId, Secret: redact.Secret(*keys.SecretAccessKey), SessionToken: redact.Secret(*keys.SessionToken),
	}})
	account.Keys().ExpireSessions(role.RoleARN, time.Now())
	if out := tf.must(t, 1, "plan"); !strings.Contains(out, "ExpiredToken") {
		t.Errorf("a plan with keys that have ended:\n%s", out)
	}
}

// callers lists the sessions that called a service since then, and counts the
// calls of others and the calls that were refused for an ended session.
func callers(account *aws.Account, service string, since time.Time) (sessions []string, others, refused int) {
	for _, c := range account.Calls(gateway.CallFilter{Service: service}) {
		switch {
		case c.Time.Before(since):
			continue
		case !strings.HasPrefix(c.AccessKeyID, "ASIA"):
			others++
		case !slices.Contains(sessions, c.AccessKeyID):
			sessions = append(sessions, c.AccessKeyID)
		}
		if strings.Contains(c.ErrorCode, "Expired") {
			refused++
		}
	}
	return sessions, others, refused
}
