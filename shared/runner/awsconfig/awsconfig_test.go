package awsconfig

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/runner/awsfake"
)

// files writes a credential as the service does.
func files(t *testing.T) Files {
	t.Helper()
	dir := t.TempDir()
	f := FilesIn(dir)
	for path, content := range map[string]string{f.Config: "[profile kubeopera]\nregion = eu-west-1\noutput = json\n", f.Credentials: keys} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

const keys = "[kubeopera]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key=secret/key+1==\naws_session_token = token==\n"

func TestLoad_uses_the_files_and_not_the_environment(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "environment")
	t.Setenv("AWS_SESSION_TOKEN", "environment")
	t.Setenv("AWS_PROFILE", "other")
	t.Setenv("AWS_REGION", "us-west-2")
	cfg, err := Load(t.Context(), files(t), "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := cfg.Credentials.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.AccessKeyID != "AKIAEXAMPLE" || got.SecretAccessKey != "secret/key+1==" || got.SessionToken != "token==" || cfg.Region != "eu-west-1" {
		t.Errorf("credential %s of %s, region %s", got.AccessKeyID, got.Source, cfg.Region)
	}
}

// TestLoad_bounds_a_call: the SDK itself waits for an answer for ever. The CA bundle
// that a run may name must still be taken up.
func TestLoad_bounds_a_call(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CA_BUNDLE", ca)
	cfg, err := Load(t.Context(), files(t), "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	client, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok || client.GetTimeout() != callTimeout {
		t.Fatalf("the HTTP client is a %T without our timeout", cfg.HTTPClient)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("the CA bundle is not used: %v", err)
	}
	_ = response.Body.Close()
}

func TestLoad_without_files(t *testing.T) {
	t.Parallel()
	if _, err := Load(t.Context(), FilesIn(t.TempDir()), "eu-west-1"); err == nil {
		t.Error("no error")
	}
}

func TestFiles_Secrets(t *testing.T) {
	t.Parallel()
	got, err := files(t).Secrets()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"AKIAEXAMPLE", "secret/key+1==", "token=="}, got); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if got, err := FilesIn(filepath.Join(t.TempDir(), "missing")).Secrets(); err != nil || len(got) > 0 {
		t.Errorf("without files: %v, %v", got, err)
	}
}

func TestIdentify(t *testing.T) {
	tests := []struct {
		name, caller string
		role         string // what IAM says of the role; empty: it may not be asked
		want         Identity
		refused      bool
	}{
		{
			name: "a user", caller: "arn:aws:iam::123456789012:user/team/ann",
			want: Identity{Account: "123456789012", Partition: "aws", ARN: "arn:aws:iam::123456789012:user/team/ann", Principal: "arn:aws:iam::123456789012:user/team/ann"},
		},
		{
			name: "a session is reduced to its role", caller: "arn:aws:sts::123456789012:assumed-role/Provisioner/run-1",
			want: Identity{Account: "123456789012", Partition: "aws", ARN: "arn:aws:sts::123456789012:assumed-role/Provisioner/run-1", Principal: "arn:aws:iam::123456789012:role/Provisioner"},
		},
		{
			name: "a role's path, which a session lacks, is IAM's to tell", caller: "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Admin/ann",
			role: "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Admin",
			want: Identity{Account: "123456789012", Partition: "aws", ARN: "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Admin/ann", Principal: "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Admin"},
		},
		{
			name: "another partition", caller: "arn:aws-us-gov:sts::123456789012:assumed-role/Provisioner/run-1",
			want: Identity{Account: "123456789012", Partition: "aws-us-gov", ARN: "arn:aws-us-gov:sts::123456789012:assumed-role/Provisioner/run-1", Principal: "arn:aws-us-gov:iam::123456789012:role/Provisioner"},
		},
		{name: "the root user", caller: "arn:aws:iam::123456789012:root", refused: true},
		{name: "a federated user", caller: "arn:aws:sts::123456789012:federated-user/bob", refused: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := awsfake.New(t)
			fake.SetCaller(tt.caller)
			fake.SetRole(tt.role)
			t.Setenv("AWS_ENDPOINT_URL", fake.URL)
			cfg, err := Load(t.Context(), files(t), "eu-west-1")
			if err != nil {
				t.Fatal(err)
			}
			got, err := Identify(t.Context(), cfg)
			if _, refused := errors.AsType[*RefusedError](err); refused != tt.refused || (err != nil && !refused) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIdentify_tells_refusals_apart(t *testing.T) {
	tests := []struct {
		code string
		want Reason
	}{
		{"ExpiredToken", ReasonExpired},
		{"InvalidClientTokenId", ReasonInvalid},
		{"SignatureDoesNotMatch", ReasonInvalid},
		{"AccessDenied", ReasonDenied},
		{"InternalFailure", ""},
	}
	for _, tt := range tests {
		t.Run(tt.code, func(t *testing.T) {
			fake := awsfake.New(t)
			fake.SetFault(func(string, string) (string, int) { return tt.code, http.StatusForbidden })
			t.Setenv("AWS_ENDPOINT_URL", fake.URL)
			t.Setenv("AWS_MAX_ATTEMPTS", "1")
			cfg, err := Load(t.Context(), files(t), "eu-west-1")
			if err != nil {
				t.Fatal(err)
			}
			_, err = Identify(t.Context(), cfg)
			if err == nil {
				t.Fatal("no error")
			}
			var got Reason
			if refused, ok := errors.AsType[*RefusedError](err); ok {
				got = refused.Reason
			}
			if got != tt.want {
				t.Errorf("reason %q, want %q (%v)", got, tt.want, err)
			}
			if strings.Contains(err.Error(), "secret/key") {
				t.Errorf("the error shows the credential: %v", err)
			}
		})
	}
}
