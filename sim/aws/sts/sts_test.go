package sts_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/aws/gateway"
	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/policy"
	"github.com/kubeopera/platform/sim/aws/sts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	keyID    = "AKIASTSTEST000000001"
	stranger = "AKIASTSTEST000000002"
	root     = "AKIASTSTEST000000003"
	secret   = "secret"
	user     = "arn:aws:iam::123456789012:user/platform"
	role     = "arn:aws:iam::123456789012:role/teams/provisioner"
	chained  = "arn:aws:iam::123456789012:role/chained"
)

// roles are the account's, by ARN.
type roles map[string]sts.Role

func (r roles) Role(_ context.Context, arn string) (sts.Role, error) {
	role, ok := r[arn]
	if !ok {
		return sts.Role{}, fmt.Errorf("%s: %w", arn, sts.ErrNoRole)
	}
	return role, nil
}

type fixture struct {
	service *sts.Service
	keys    *keyring.Ring
	url     string
	client  *http.Client

	mu  sync.Mutex
	now time.Time
}

func (f *fixture) time() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{keys: keyring.New(), now: time.Now().Truncate(time.Second)}
	for id, arn := range map[string]string{keyID: user, stranger: user + "2", root: "arn:aws:iam::123456789012:root"} {
		if err := f.keys.Register(keyring.Key{ID: id, Secret: secret, PrincipalARN: arn}); err != nil {
			t.Fatal(err)
		}
	}
	known := roles{}
	add := func(arn, principal, externalID string, longest time.Duration) {
		text, err := policy.TrustFor([]string{principal}, externalID)
		if err != nil {
			t.Fatal(err)
		}
		trust, err := policy.ParseTrust(text)
		if err != nil {
			t.Fatal(err)
		}
		known[arn] = sts.Role{ARN: arn, Trust: trust, MaxDuration: longest}
	}
	add(role, user, "acme", 2*time.Hour)
	add(chained, role, "", 12*time.Hour)
	var err error
	if f.service, err = sts.New(sts.Config{Keys: f.keys, Roles: known, Now: f.time}); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Keys: f.keys, Services: map[string]http.Handler{"sts": f.service}, Fallback: http.NotFoundHandler(), Now: f.time})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	f.url, f.client = server.URL, &http.Client{Transport: transport}
	return f
}

func (f *fixture) as(id, secret, token string) *sdk.Client {
	return sdk.NewFromConfig(aws.Config{
		Region: "eu-central-1", BaseEndpoint: &f.url, HTTPClient: f.client,
		Credentials: credentials.NewStaticCredentialsProvider(id, secret, token),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	})
}

// assume gives a client of the session, and when that is said to end.
func (f *fixture) assume(t *testing.T, as *sdk.Client, in sdk.AssumeRoleInput) (*sdk.Client, time.Time) {
	t.Helper()
	out, err := as.AssumeRole(t.Context(), &in)
	if err != nil {
		t.Fatal(err)
	}
	c := out.Credentials
	return f.as(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken), *c.Expiration
}

func code(err error) string {
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return answer.ErrorCode()
	}
	return fmt.Sprint(err)
}

func TestSessionIsTheRolesUntilItEnds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	session, ends := f.assume(t, f.as(keyID, secret, ""), sdk.AssumeRoleInput{RoleArn: aws.String(role), RoleSessionName: aws.String("run-1"), ExternalId: aws.String("acme"), DurationSeconds: aws.Int32(900)})
	if want := f.time().Add(15 * time.Minute); !ends.Equal(want) {
		t.Errorf("ends %s, want %s", ends, want)
	}
	id, err := session.GetCallerIdentity(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const arn = "arn:aws:sts::123456789012:assumed-role/provisioner/run-1" // without the role's path
	if *id.Arn != arn || *id.Account != "123456789012" || !strings.HasPrefix(*id.UserId, "AROA") || !strings.HasSuffix(*id.UserId, ":run-1") {
		t.Errorf("identity %s, %s, %s", *id.Arn, *id.Account, *id.UserId)
	}
	f.advance(15*time.Minute - 2*time.Second) // less than clocks may differ by
	if _, err := session.GetCallerIdentity(t.Context(), nil); err != nil {
		t.Errorf("before its end: %v", err)
	}
	f.advance(2 * time.Second)
	if _, err := session.GetCallerIdentity(t.Context(), nil); code(err) != "ExpiredToken" {
		t.Errorf("after its end: %v", err)
	}
}

func TestSessionIsEndedOnDemand(t *testing.T) {
	t.Parallel()
	f := setup(t)
	session, _ := f.assume(t, f.as(keyID, secret, ""), sdk.AssumeRoleInput{RoleArn: aws.String(role), RoleSessionName: aws.String("run-1"), ExternalId: aws.String("acme")})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/_sim/sessions/expire?role_arn="+role, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if _, err := session.GetCallerIdentity(t.Context(), nil); code(err) != "ExpiredToken" {
		t.Errorf("got %v", err)
	}
}

func TestShortenedSessions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.service.ShortenSessions(10 * time.Second)
	in := sdk.AssumeRoleInput{RoleArn: aws.String(role), RoleSessionName: aws.String("run-1"), ExternalId: aws.String("acme")}
	session, ends := f.assume(t, f.as(keyID, secret, ""), in)
	if want := f.time().Add(10 * time.Second); !ends.Equal(want) {
		t.Errorf("ends %s, want %s", ends, want)
	}
	f.advance(10 * time.Second)
	if _, err := session.GetCallerIdentity(t.Context(), nil); err != nil {
		t.Errorf("at its end: %v", err)
	}
	f.advance(5 * time.Second)
	if _, err := session.GetCallerIdentity(t.Context(), nil); code(err) != "ExpiredToken" {
		t.Errorf("after its end: %v", err)
	}
	f.service.ShortenSessions(0)
	if _, ends = f.assume(t, f.as(keyID, secret, ""), in); !ends.Equal(f.time().Add(time.Hour)) {
		t.Errorf("ends %s", ends)
	}
}

func TestAssumeRoleRefuses(t *testing.T) {
	t.Parallel()
	good := sdk.AssumeRoleInput{RoleArn: aws.String(role), RoleSessionName: aws.String("run-1"), ExternalId: aws.String("acme")}
	tests := []struct {
		name, key string
		edit      func(*sdk.AssumeRoleInput)
		code      string
		message   string
	}{
		{"another principal", stranger, func(*sdk.AssumeRoleInput) {}, "AccessDenied", "User: " + user + "2 is not authorized to perform: sts:AssumeRole on resource: " + role},
		{"a wrong external id", keyID, func(in *sdk.AssumeRoleInput) { in.ExternalId = aws.String("acm") }, "AccessDenied", "not authorized"},
		{"no external id", keyID, func(in *sdk.AssumeRoleInput) { in.ExternalId = nil }, "AccessDenied", "not authorized"},
		{"no such role", keyID, func(in *sdk.AssumeRoleInput) { in.RoleArn = aws.String(role + "2") }, "AccessDenied", "on resource: " + role + "2"},
		{"the role without its path", keyID, func(in *sdk.AssumeRoleInput) { in.RoleArn = aws.String(strings.Replace(role, "teams/", "", 1)) }, "AccessDenied", "not authorized"},
		{"the root user", root, func(*sdk.AssumeRoleInput) {}, "AccessDenied", "root accounts"},
		{"no role's ARN", keyID, func(in *sdk.AssumeRoleInput) { in.RoleArn = aws.String(user) }, "ValidationError", "is invalid"},
		{"a session's name of two words", keyID, func(in *sdk.AssumeRoleInput) { in.RoleSessionName = aws.String("a b") }, "ValidationError", "roleSessionName"},
		{"an external id of two words", keyID, func(in *sdk.AssumeRoleInput) { in.ExternalId = aws.String("a b") }, "ValidationError", "externalId"},
		{"too short", keyID, func(in *sdk.AssumeRoleInput) { in.DurationSeconds = aws.Int32(899) }, "ValidationError", "between 900 and 43200"},
		{"too long", keyID, func(in *sdk.AssumeRoleInput) { in.DurationSeconds = aws.Int32(43201) }, "ValidationError", "between 900 and 43200"},
		{"longer than the role allows", keyID, func(in *sdk.AssumeRoleInput) { in.DurationSeconds = aws.Int32(7201) }, "ValidationError", "MaxSessionDuration"},
	}
	f := setup(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := good
			tt.edit(&in)
			_, err := f.as(tt.key, secret, "").AssumeRole(t.Context(), &in)
			if code(err) != tt.code || !strings.Contains(fmt.Sprint(err), tt.message) {
				t.Errorf("got %v, want %s: %s", err, tt.code, tt.message)
			}
		})
	}
}

// A role's session may assume another role, for an hour.
func TestRoleChaining(t *testing.T) {
	t.Parallel()
	f := setup(t)
	first, _ := f.assume(t, f.as(keyID, secret, ""), sdk.AssumeRoleInput{RoleArn: aws.String(role), RoleSessionName: aws.String("run-1"), ExternalId: aws.String("acme")})
	second, _ := f.assume(t, first, sdk.AssumeRoleInput{RoleArn: aws.String(chained), RoleSessionName: aws.String("run-2")})
	id, err := second.GetCallerIdentity(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("arn:aws:sts::123456789012:assumed-role/chained/run-2", *id.Arn); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	_, err = first.AssumeRole(t.Context(), &sdk.AssumeRoleInput{RoleArn: aws.String(chained), RoleSessionName: aws.String("run-2"), DurationSeconds: aws.Int32(3601)})
	if code(err) != "ValidationError" || !strings.Contains(err.Error(), "role chaining") {
		t.Errorf("for more than an hour: %v", err)
	}
}

func TestNewNeedsKeys(t *testing.T) {
	t.Parallel()
	if _, err := sts.New(sts.Config{}); err == nil {
		t.Error("no error")
	}
}
