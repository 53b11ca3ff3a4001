package policy_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kubeopera/platform/sim/aws/policy"
)

const (
	token      = "arn:aws:ssm:eu-central-1:123456789012:parameter/kubeopera/e/join_token"
	kubeconfig = "arn:aws:ssm:eu-central-1:123456789012:parameter/kubeopera/e/admin_kubeconfig"
)

func TestAllows(t *testing.T) {
	t.Parallel()
	const everything = `{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`
	tests := []struct {
		name             string
		policies         []string
		action, resource string
		want             bool
	}{
		{name: "nothing", action: "ssm:GetParameter", resource: token},
		{name: "exact", policies: []string{`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["ssm:GetParameters"], "Resource": ["` + token + `"]}]}`}, action: "ssm:GetParameters", resource: token, want: true},
		{name: "other resource", policies: []string{`{"Statement": [{"Effect": "Allow", "Action": ["ssm:GetParameters"], "Resource": ["` + token + `"]}]}`}, action: "ssm:GetParameters", resource: kubeconfig},
		{name: "other action", policies: []string{`{"Statement": [{"Effect": "Allow", "Action": ["ssm:GetParameters"], "Resource": ["*"]}]}`}, action: "ssm:GetParameter", resource: token},
		{name: "action with wildcard, in another case", policies: []string{`{"Statement": {"Effect": "Allow", "Action": "SSM:getparameter*", "Resource": "arn:aws:ssm:*:*:parameter/kubeopera/?/join_*"}}`}, action: "ssm:GetParameters", resource: token, want: true},
		{name: "resources are in one case", policies: []string{`{"Statement": {"Effect": "Allow", "Action": "ssm:*", "Resource": "` + strings.ToUpper(token) + `"}}`}, action: "ssm:GetParameter", resource: token},
		{name: "denied by another policy", policies: []string{everything, `{"Statement": {"Effect": "Deny", "Action": "ssm:*", "Resource": "` + kubeconfig + `"}}`}, action: "ssm:GetParameter", resource: kubeconfig},
		{name: "not what is denied", policies: []string{everything, `{"Statement": {"Effect": "Deny", "Action": "ssm:*", "Resource": "` + kubeconfig + `"}}`}, action: "ssm:GetParameter", resource: token, want: true},
		{name: "condition", policies: []string{`{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringEquals": {"aws:RequestedRegion": "eu-central-1"}}}}`}, action: "ssm:GetParameter", resource: token},
		{name: "empty condition", policies: []string{`{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {}}}`}, action: "ssm:GetParameter", resource: token, want: true},
		{name: "variable", policies: []string{`{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*${aws:userid}*"}}`}, action: "ssm:GetParameter", resource: token},
		{name: "all but", policies: []string{`{"Statement": {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}}`}, action: "ssm:GetParameter", resource: token},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var documents []policy.Document
			for _, text := range tt.policies {
				d, err := policy.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, d)
			}
			if got := policy.Allows(documents, tt.action, tt.resource); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestParseRefusesWhatIsNoPolicy(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `[]`, `{"Statement": 1}`, `{"Statement": [{"Action": {}}]}`} {
		if _, err := policy.Parse(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a*b?c", "axxbyc")
	f.Add("*", "")
	f.Add("**a", "bbba")
	f.Add("a*a*b", "aaaaaa")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 50 || len(text) > 200 || !ascii(pattern) || !ascii(text) {
			return
		}
		quoted := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
		if want := regexp.MustCompile(`(?s)^` + quoted + `$`).MatchString(text); policy.Match(pattern, text) != want {
			t.Errorf("Match(%q, %q) is %t", pattern, text, !want)
		}
	})
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 126 })
}
