package account_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/aws/account"
	"github.com/kubeopera/platform/sim/aws/eks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answering is a client of an emulator that always gives one answer.
func answering(t *testing.T, status int, body string) *account.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	endpoint, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return account.New(endpoint)
}

func TestRoleTrusts(t *testing.T) {
	t.Parallel()
	const role = "arn:aws:iam::123456789012:role/a/path/name"
	statement := func(s string) string {
		return "<GetRoleResponse><GetRoleResult><Role><AssumeRolePolicyDocument>" +
			url.PathEscape(`{"Statement":[`+s+`]}`) + "</AssumeRolePolicyDocument></Role></GetRoleResult></GetRoleResponse>"
	}
	tests := []struct {
		name, arn, body string
		status          int
		want, fails     bool
	}{
		{name: "one service", body: statement(`{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}`), want: true},
		{name: "lists", body: statement(`{"Effect":"Allow","Principal":{"Service":["ec2.amazonaws.com","eks.amazonaws.com"]},"Action":["sts:AssumeRole","sts:TagSession"]}`), want: true},
		{name: "second statement", body: statement(`{"Effect":"Allow","Principal":"*","Action":"sts:TagSession"},{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}`), want: true},
		{name: "another service", body: statement(`{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}`)},
		{name: "a user", body: statement(`{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::123456789012:root"},"Action":"sts:AssumeRole"}`)},
		{name: "denied", body: statement(`{"Effect":"Deny","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}`)},
		{name: "no role", status: http.StatusNotFound, body: "<ErrorResponse><Error><Code>NoSuchEntity</Code></Error></ErrorResponse>"},
		{name: "no ARN of a role", arn: "arn:aws:iam::123456789012:user/a"},
		{name: "emulator in trouble", status: http.StatusInternalServerError, fails: true},
		{name: "no XML", body: "{}", fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, arn := tt.status, tt.arn
			if status == 0 {
				status = http.StatusOK
			}
			if arn == "" {
				arn = role
			}
			got, err := answering(t, status, tt.body).RoleTrusts(t.Context(), arn, "eks.amazonaws.com")
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}

func TestMissingThingsAreNotFound(t *testing.T) {
	t.Parallel()
	const body = `<Response><Errors><Error><Code>InvalidSubnetID.NotFound</Code><Message>no such subnet</Message></Error></Errors><RequestID>r</RequestID></Response>`
	_, err := answering(t, http.StatusBadRequest, body).Subnets(t.Context(), "eu-central-1", []string{"subnet-1"})
	if !errors.Is(err, eks.ErrNotFound) || !strings.Contains(err.Error(), "no such subnet") {
		t.Errorf("got %v", err)
	}
	_, err = answering(t, http.StatusInternalServerError, "").Subnets(t.Context(), "eu-central-1", []string{"subnet-1"})
	if err == nil || errors.Is(err, eks.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
