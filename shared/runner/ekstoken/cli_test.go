package ekstoken

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/skip"
)

// TestNew_makes_the_AWS_CLIs_token holds our token against that of `aws eks
// get-token` for the same credential, region, cluster and second: the same URL,
// signature included.
func TestNew_makes_the_AWS_CLIs_token(t *testing.T) {
	cli, err := exec.LookPath("aws")
	if err != nil {
		skip.Missing(t, skip.AWSCLI, "aws is not on PATH")
	}
	session := strings.Repeat("IQoJb3JpZ2luX2VjE/+", 30) + "=="
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "AssumeRole" || r.FormValue("ExternalId") != "acme" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/r/s</Arn><AssumedRoleId>AROA:s</AssumedRoleId></AssumedRoleUser>`+
			`<Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>secret/of+role</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
			session, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer sts.Close()
	key := map[string]string{"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret/with+signs="}
	tests := []struct {
		name, region, cluster string
		env                   map[string]string
		config                string // of the shared config file
	}{
		{name: "access key", region: "eu-west-1", cluster: "acme-prod", env: key},
		{name: "another region", region: "us-east-1", cluster: "A_1-b", env: key},
		{name: "region of another partition", region: "cn-north-1", cluster: "acme", env: key},
		{name: "session", region: "eu-west-1", cluster: "acme-prod", env: map[string]string{
			"AWS_ACCESS_KEY_ID": "ASIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": session,
		}},
		{name: "profile that assumes a role", region: "eu-west-1", cluster: "acme-prod", env: map[string]string{
			"AWS_PROFILE": "kubeopera", "AWS_ENDPOINT_URL": sts.URL, "AWS_ENDPOINT_URL_STS": sts.URL,
		}, config: `[profile kubeopera]
role_arn = arn:aws:iam::123456789012:role/r
source_profile = base
external_id = acme
[profile base]
aws_access_key_id = AKIABASE
aws_secret_access_key = secret
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path, _ := os.LookupEnv("PATH")
			env := map[string]string{
				"PATH": path, "HOME": dir, "AWS_CONFIG_FILE": filepath.Join(dir, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "credentials"),
				"AWS_EC2_METADATA_DISABLED": "true", "AWS_STS_REGIONAL_ENDPOINTS": "regional",
			}
			maps.Copy(env, tt.env)
			if err := os.WriteFile(env["AWS_CONFIG_FILE"], []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), cli, "--region", tt.region, "eks", "get-token", "--cluster-name", tt.cluster, "--output", "json")
			for name, value := range env {
				t.Setenv(name, value)
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("aws eks get-token: %v: %s", err, &stderr)
			}
			var credential struct {
				Status struct {
					Token               string
					ExpirationTimestamp time.Time
				}
			}
			if err := json.Unmarshal(out, &credential); err != nil {
				t.Fatal(err)
			}
			want := read(t, credential.Status.Token)
			signed, err := time.Parse("20060102T150405Z", want.Query().Get("X-Amz-Date"))
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(tt.region))
			if err != nil {
				t.Fatal(err)
			}
			token, err := New(t.Context(), cfg, tt.cluster, signed)
			if err != nil {
				t.Fatal(err)
			}
			got := read(t, token.Value)
			if got.Scheme != want.Scheme || got.Host != want.Host || got.Path != want.Path {
				t.Errorf("address %s://%s%s, the CLI has %s://%s%s", got.Scheme, got.Host, got.Path, want.Scheme, want.Host, want.Path)
			}
			if diff := cmp.Diff(want.Query(), got.Query()); diff != "" {
				t.Errorf("query (-CLI +ours):\n%s", diff)
			}
			// The CLI counts from a moment before it signed.
			if late := token.Expires.Sub(credential.Status.ExpirationTimestamp); late < -time.Second || late > time.Minute {
				t.Errorf("expires %s, the CLI's %s", token.Expires, credential.Status.ExpirationTimestamp)
			}
		})
	}
}

// read is the URL in a token.
func read(t *testing.T, token string) *url.URL {
	t.Helper()
	encoded, ok := strings.CutPrefix(token, prefix)
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || !ok {
		t.Fatalf("token %q: %v", token, err)
	}
	u, err := url.Parse(string(decoded))
	if err != nil {
		t.Fatal(err)
	}
	return u
}
