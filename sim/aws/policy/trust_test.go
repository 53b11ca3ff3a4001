package policy_test

import (
	"testing"

	"github.com/kubeopera/platform/sim/aws/policy"
)

func TestTrust(t *testing.T) {
	t.Parallel()
	const (
		user    = "arn:aws:iam::123456789012:user/platform"
		session = "arn:aws:sts::123456789012:assumed-role/ci/run"
	)
	statement := func(principal, condition string) string {
		if condition != "" {
			condition = `,"Condition":` + condition
		}
		return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":` + principal + condition + `}]}`
	}
	const external = `{"StringEquals":{"sts:ExternalId":["acme","other"]}}`
	tests := []struct {
		name, document, principal, externalID string
		want                                  bool
	}{
		{"the user", statement(`{"AWS":"`+user+`"}`, ""), user, "", true},
		{"an external id that nobody asked for", statement(`{"AWS":"`+user+`"}`, ""), user, "acme", true},
		{"one of several", statement(`{"AWS":["x","`+user+`"]}`, ""), user, "", true},
		{"another user", statement(`{"AWS":"`+user+`"}`, ""), user + "2", "", false},
		{"the account", statement(`{"AWS":"arn:aws:iam::123456789012:root"}`, ""), user, "", true},
		{"the account's id", statement(`{"AWS":"123456789012"}`, ""), session, "", true},
		{"another account", statement(`{"AWS":"arn:aws:iam::210987654321:root"}`, ""), user, "", false},
		{"anybody", statement(`"*"`, ""), user, "", true},
		{"a session of the role", statement(`{"AWS":"arn:aws:iam::123456789012:role/teams/ci"}`, ""), session, "", true},
		{"a session of another role", statement(`{"AWS":"arn:aws:iam::123456789012:role/teams/cd"}`, ""), session, "", false},
		{"the session itself", statement(`{"AWS":"`+session+`"}`, ""), session, "", true},
		{"a service only", statement(`{"Service":"eks.amazonaws.com"}`, ""), user, "", false},
		{"the right external id", statement(`{"AWS":"`+user+`"}`, external), user, "acme", true},
		{"a wrong external id", statement(`{"AWS":"`+user+`"}`, external), user, "acm", false},
		{"no external id", statement(`{"AWS":"`+user+`"}`, external), user, "", false},
		{"another condition", statement(`{"AWS":"`+user+`"}`, `{"Bool":{"aws:MultiFactorAuthPresent":"true"}}`), user, "", false},
		{"another action", `{"Statement":{"Effect":"Allow","Action":"sts:TagSession","Principal":"*"}}`, user, "", false},
		{"denied", `{"Statement":[{"Effect":"Allow","Action":"sts:*","Principal":"*"},{"Effect":"Deny","Action":"sts:AssumeRole","Principal":{"AWS":"` + user + `"}}]}`, user, "", false},
		{"no principal", `{"Statement":{"Effect":"Allow","Action":"sts:AssumeRole"}}`, user, "", false},
		{"no ARN", statement(`"*"`, ""), "platform", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			trust, err := policy.ParseTrust(tt.document)
			if err != nil {
				t.Fatal(err)
			}
			if got := trust.Allows(tt.principal, tt.externalID); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

func TestTrustOfServices(t *testing.T) {
	t.Parallel()
	trust, err := policy.ParseTrust(`{"Statement":[{"Effect":"Allow","Principal":{"Service":["ec2.amazonaws.com","eks.amazonaws.com"]},"Action":["sts:AssumeRole","sts:TagSession"]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for service, want := range map[string]bool{"eks.amazonaws.com": true, "ec2.amazonaws.com": true, "lambda.amazonaws.com": false} {
		if got := trust.AllowsService(service); got != want {
			t.Errorf("%s: %t, want %t", service, got, want)
		}
	}
}

func TestTrustForIsReadBack(t *testing.T) {
	t.Parallel()
	const user = "arn:aws:iam::123456789012:user/platform"
	for _, id := range []string{"", "acme"} {
		text, err := policy.TrustFor([]string{user}, id)
		if err != nil {
			t.Fatal(err)
		}
		trust, err := policy.ParseTrust(text)
		if err != nil {
			t.Fatal(err)
		}
		if !trust.Allows(user, id) || trust.Allows(user+"2", id) || trust.Allows(user, "wrong") != (id == "") {
			t.Errorf("%s does not say what it should", text)
		}
	}
	if _, err := policy.ParseTrust("{"); err == nil {
		t.Error("no error for what is no JSON")
	}
}
