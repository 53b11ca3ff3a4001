package cloudcred_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runcontract"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		key  *cloudcred.AccessKey
		want string
	}{
		{"key", &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalr/XUtn+FEMI="}, "[kubeopera]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = wJalr/XUtn+FEMI=\n"},
		{"session", &cloudcred.AccessKey{ID: "ASIAIOSFODNN7EXAMPLE", Secret: "s", SessionToken: "to/ken=="}, "[kubeopera]\naws_access_key_id = ASIAIOSFODNN7EXAMPLE\naws_secret_access_key = s\naws_session_token = to/ken==\n"},
		{"none", nil, "[kubeopera]\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for name, content := range (cloudcred.Credential{AccessKey: tt.key}).Files("eu-west-1") {
				got[name] = string(content)
			}
			want := map[string]string{runcontract.CredentialKeysFile: tt.want, runcontract.CredentialConfigFile: "[profile kubeopera]\nregion = eu-west-1\n"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzFiles: whatever stands in a credential, the files hold their own sections
// and settings only, and a valid credential unchanged.
func FuzzFiles(f *testing.F) {
	f.Add("AKIAIOSFODNN7EXAMPLE", "wJalr/XUtn+FEMI=", "", "eu-west-1")
	f.Add("A\n[profile x]\ncredential_process=sh", "s\r\nrole_arn = x", "t ; c", "eu # x\n")
	f.Add("=", " ", "\x00", "\u2028]")
	f.Fuzz(func(t *testing.T, keyID, secret, token, region string) {
		key := cloudcred.AccessKey{ID: keyID, Secret: cloudcred.Secret(secret), SessionToken: cloudcred.Secret(token)}
		c := cloudcred.Credential{Kind: cloudcred.KindAccessKey, AccessKey: &key}
		files := c.Files(region)
		values := map[string]string{}
		for name, content := range files {
			for i, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
				if i == 0 {
					if line != "[kubeopera]" && line != "[profile kubeopera]" {
						t.Errorf("%s begins with %q", name, line)
					}
					continue
				}
				setting, value, ok := strings.Cut(line, " = ")
				if !ok || value == "" || strings.ContainsAny(value, " \t\r\n#;[]\"'\\") {
					t.Errorf("%s has the line %q", name, line)
				}
				values[setting] = value
			}
		}
		for setting := range values {
			switch setting {
			case "aws_access_key_id", "aws_secret_access_key", "aws_session_token", "region":
			default:
				t.Errorf("unknown setting %q", setting)
			}
		}
		if key.Validate() == nil && (values["aws_access_key_id"] != keyID || values["aws_secret_access_key"] != secret || values["aws_session_token"] != token) {
			t.Errorf("a valid credential was changed: %q", files)
		}
		if err := key.Validate(); err != nil && len(secret) > 8 && strings.Contains(err.Error(), secret) && !strings.Contains("access_key_id and secret_access_key are required is longer than bytes or holds other bytes than an AWS credential has session_token", secret) {
			t.Errorf("the error holds the secret: %v", err)
		}
	})
}

func TestCredentialDoesNotPrintItsSecrets(t *testing.T) {
	t.Parallel()
	c := cloudcred.Credential{ID: "1", AccessKey: &cloudcred.AccessKey{ID: "AKIA", Secret: canary, SessionToken: canary}}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", c, *c.AccessKey, *c.AccessKey), fmt.Sprint(c.AccessKey), fmt.Sprintf("%q %x", *c.AccessKey, *c.AccessKey)} {
		if strings.Contains(text, canary) || !strings.Contains(text, "[redacted]") && strings.Contains(text, "AKIA") {
			t.Errorf("printed %s", text)
		}
	}
}
