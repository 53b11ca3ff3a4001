package cloudcred_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runcontract"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	const plain = "[profile kubeopera]\nregion = eu-west-1\n"
	const role = plain + "role_arn = arn:aws:iam::123456789012:role/teams/Provisioner\nsource_profile = kubeopera-base\n"
	base := cloudcred.Credential{Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIABASE", Secret: "s/+="}}
	const baseKeys = "[kubeopera-base]\naws_access_key_id = AKIABASE\naws_secret_access_key = s/+=\n"
	const arn = "arn:aws:iam::123456789012:role/teams/Provisioner"
	tests := []struct {
		name         string
		credential   cloudcred.Credential
		environment  string
		config, keys string
	}{
		{
			"key",
			cloudcred.Credential{AccessKey: &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalr/XUtn+FEMI="}},
			"acme-prod",
			plain, "[kubeopera]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = wJalr/XUtn+FEMI=\n",
		},
		{
			"session",
			cloudcred.Credential{AccessKey: &cloudcred.AccessKey{ID: "ASIAIOSFODNN7EXAMPLE", Secret: "s", SessionToken: "to/ken=="}},
			"acme-prod",
			plain, "[kubeopera]\naws_access_key_id = ASIAIOSFODNN7EXAMPLE\naws_secret_access_key = s\naws_session_token = to/ken==\n",
		},
		{"none", cloudcred.Credential{}, "acme-prod", plain, "[kubeopera]\n"},
		{
			"role",
			cloudcred.Credential{AssumeRole: &cloudcred.AssumeRole{RoleARN: arn, Base: base}},
			"acme-prod",
			role + "role_session_name = kubeopera-acme-prod\nduration_seconds = 3600\n", baseKeys,
		},
		{
			"role with everything",
			cloudcred.Credential{AssumeRole: &cloudcred.AssumeRole{
				RoleARN: arn, ExternalID: "acme/=:1", SessionName: "ops@example.org", Duration: 2 * time.Hour, Base: base,
			}},
			"acme-prod",
			role + "role_session_name = ops@example.org\nexternal_id = acme/=:1\nduration_seconds = 7200\n", baseKeys,
		},
		{
			"a session's name has at most 64 characters",
			cloudcred.Credential{AssumeRole: &cloudcred.AssumeRole{RoleARN: arn, Base: base}},
			strings.Repeat("long", 16),
			role + "role_session_name = kubeopera-" + strings.Repeat("long", 16)[:54] + "\nduration_seconds = 3600\n", baseKeys,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for name, content := range tt.credential.Files("eu-west-1", tt.environment) {
				got[name] = string(content)
			}
			want := map[string]string{runcontract.CredentialConfigFile: tt.config, runcontract.CredentialKeysFile: tt.keys}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzFiles: whatever stands in a credential, the files hold their own section
// and settings only, and a valid credential unchanged.
func FuzzFiles(f *testing.F) {
	f.Add("AKIAIOSFODNN7EXAMPLE", "wJalr/XUtn+FEMI=", "", "eu-west-1", "", "", "", int64(0))
	f.Add("AKIAIOSFODNN7EXAMPLE", "wJalr/XUtn+FEMI=", "", "eu-west-1", "arn:aws:iam::123456789012:role/a/b", "acme:1/=", "me@example.org", int64(3600))
	f.Add("A\n[profile x]\ncredential_process=sh", "s\r\nrole_arn = x", "t ; c", "eu # x\n", "arn:aws:iam::123456789012:role/a\ncredential_process = sh", "x\n[profile y]", "a\nb", int64(-1))
	f.Add("=", " ", "\x00", "\u2028]", "arn:aws:iam::123456789012:role/\u2028", "\ufeff#", ";", int64(1)<<40)
	f.Fuzz(func(t *testing.T, keyID, secret, token, region, arn, external, session string, seconds int64) {
		key := cloudcred.AccessKey{ID: keyID, Secret: cloudcred.Secret(secret), SessionToken: cloudcred.Secret(token)}
		c := cloudcred.Credential{Kind: cloudcred.KindAccessKey, AccessKey: &key}
		var role cloudcred.AssumeRole
		if arn != "" {
			role = cloudcred.AssumeRole{RoleARN: arn, ExternalID: cloudcred.Secret(external), SessionName: session, Duration: time.Duration(seconds) * time.Second, Base: c}
			c = cloudcred.Credential{Kind: cloudcred.KindAssumeRole, AssumeRole: &role}
		}
		values := map[string]string{}
		for name, content := range c.Files(region, session) {
			for i, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
				if i == 0 {
					if line != "[kubeopera]" && line != "[profile kubeopera]" && (line != "[kubeopera-base]" || arn == "") {
						t.Errorf("%s begins with %q", name, line)
					}
					continue
				}
				setting, value, ok := strings.Cut(line, " = ")
				if !ok || value == "" || strings.ContainsAny(value, " \t\r\n#;[]\"'\\") {
					t.Errorf("%s has the line %q", name, line)
				}
				if _, twice := values[setting]; twice {
					t.Errorf("%s is there twice", setting)
				}
				values[setting] = value
			}
		}
		for setting := range values {
			switch setting {
			case "aws_access_key_id", "aws_secret_access_key", "aws_session_token", "region":
			case "role_arn", "source_profile", "role_session_name", "external_id", "duration_seconds":
				if arn == "" {
					t.Errorf("%s for an access key", setting)
				}
			default:
				t.Errorf("unknown setting %q", setting)
			}
		}
		if key.Validate() == nil && (values["aws_access_key_id"] != keyID || values["aws_secret_access_key"] != secret || values["aws_session_token"] != token) {
			t.Errorf("a valid key was changed: %q", values)
		}
		if arn != "" && role.Validate() == nil && (values["role_arn"] != arn || values["external_id"] != external || session != "" && values["role_session_name"] != session) {
			t.Errorf("a valid role was changed: %q", values)
		}
		if err := key.Validate(); err != nil && len(secret) > 8 && strings.Contains(err.Error(), secret) && !strings.Contains("access_key_id and secret_access_key are required is longer than bytes or holds other bytes than an AWS credential has session_token", secret) {
			t.Errorf("the error holds the secret: %v", err)
		}
	})
}

func TestValidateRole(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		role cloudcred.AssumeRole
		want string // empty: it is valid
	}{
		{"least", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r"}, ""},
		{"all", cloudcred.AssumeRole{RoleARN: "arn:aws-us-gov:iam::123456789012:role/a/b/R+=,.@-_", ExternalID: "a:/=+,.@-_", SessionName: "a+=,.@-_", Duration: 12 * time.Hour}, ""},
		{"no role", cloudcred.AssumeRole{}, "role_arn"},
		{"a user", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:user/r"}, "role_arn"},
		{"a session", cloudcred.AssumeRole{RoleARN: "arn:aws:sts::123456789012:assumed-role/r/s"}, "role_arn"},
		{"two lines", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r\ncredential_process=sh"}, "role_arn"},
		{"a line's end", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r\n"}, "role_arn"},
		{"a long path", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/" + strings.Repeat("a/", 1100) + "r"}, "role_arn"},
		{"an external id of two lines", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r", ExternalID: canary + "\nx"}, "external_id"},
		{"a short external id", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r", ExternalID: "a"}, "external_id"},
		{"a comment in the external id", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r", ExternalID: canary + " # x"}, "external_id"},
		{"a session name with a slash", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r", SessionName: "a/b"}, "session_name"},
		{"a long session name", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r", SessionName: strings.Repeat("a", 65)}, "session_name"},
		{"too short", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r", Duration: 15*time.Minute - time.Second}, "duration_seconds is not 900 to 43200"},
		{"too long", cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r", Duration: 12*time.Hour + time.Second}, "duration_seconds"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.role.Validate()
			switch {
			case (err == nil) != (tt.want == ""):
				t.Errorf("got %v", err)
			case err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), canary)):
				t.Errorf("error %q lacks %q, or shows the value", err, tt.want)
			}
		})
	}
}

func TestExpiresAt(t *testing.T) {
	t.Parallel()
	ends := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	session := cloudcred.Credential{AccessKey: &cloudcred.AccessKey{ID: "ASIA", ExpiresAt: ends}}
	for name, tt := range map[string]struct {
		credential cloudcred.Credential
		want       time.Time
	}{
		"a key":               {cloudcred.Credential{AccessKey: &cloudcred.AccessKey{ID: "AKIA"}}, time.Time{}},
		"a session":           {session, ends},
		"a role of a session": {cloudcred.Credential{AssumeRole: &cloudcred.AssumeRole{Base: session, Duration: time.Hour}}, ends},
		"nothing":             {cloudcred.Credential{}, time.Time{}},
	} {
		if got := tt.credential.ExpiresAt(); !got.Equal(tt.want) {
			t.Errorf("%s ends %s, want %s", name, got, tt.want)
		}
	}
}

func TestCredentialDoesNotPrintItsSecrets(t *testing.T) {
	t.Parallel()
	c := cloudcred.Credential{ID: "1", AccessKey: &cloudcred.AccessKey{ID: "AKIA", Secret: canary, SessionToken: canary}}
	role := cloudcred.AssumeRole{ExternalID: canary, Base: c}
	if text := fmt.Sprintf("%v %+v %#v %s", role, role, role, role.ExternalID); strings.Contains(text, canary) {
		t.Errorf("printed %s", text)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", c, *c.AccessKey, *c.AccessKey), fmt.Sprint(c.AccessKey), fmt.Sprintf("%q %x", *c.AccessKey, *c.AccessKey)} {
		if strings.Contains(text, canary) || !strings.Contains(text, "[redacted]") && strings.Contains(text, "AKIA") {
			t.Errorf("printed %s", text)
		}
	}
}
