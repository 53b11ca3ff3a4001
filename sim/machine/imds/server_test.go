package imds_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubeopera/platform/sim/machine/imds"
)

type fixture struct {
	server *httptest.Server
	later  atomic.Int64 // than the start, in nanoseconds
}

func (f *fixture) now() time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(f.later.Load()))
}

func start(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{}
	instance := imds.Instance{
		ID: "i-0123", Region: "eu-west-1", AvailabilityZone: "eu-west-1b", PrivateIP: "10.0.1.5",
		PrivateDNSName: "ip-10-0-1-5.eu-west-1.compute.internal", MAC: "02:00:0a:00:01:05",
		Role: "node", InstanceProfile: "arn:aws:iam::123456789012:instance-profile/node", UserData: []byte("#!/bin/sh\n"),
	}
	f.server = httptest.NewServer(imds.New(imds.Config{
		Instance: func() imds.Instance { return instance },
		Credentials: func() (imds.Credentials, error) {
			return imds.Credentials{AccessKeyID: "ASIA1", SecretAccessKey: "s", Token: "t", Issued: f.now(), Expiration: f.now().Add(time.Hour)}, nil
		},
		Now: f.now,
	}))
	t.Cleanup(f.server.Close)
	return f
}

func (f *fixture) do(t *testing.T, method, path string, headers ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, f.server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := f.server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func (f *fixture) token(t *testing.T, ttl string) string {
	t.Helper()
	status, token := f.do(t, http.MethodPut, "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", ttl)
	if status != http.StatusOK {
		t.Fatalf("token: %d", status)
	}
	return token
}

func TestATokenIsNeeded(t *testing.T) {
	t.Parallel()
	f := start(t)
	if status, _ := f.do(t, http.MethodGet, "/latest/meta-data/instance-id"); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d, want 401", status)
	}
	if status, _ := f.do(t, http.MethodGet, "/latest/meta-data/instance-id", "X-aws-ec2-metadata-token", "made-up"); status != http.StatusUnauthorized {
		t.Errorf("with a made-up token: %d, want 401", status)
	}
	token := f.token(t, "60")
	if status, body := f.do(t, http.MethodGet, "/latest/meta-data/instance-id", "X-aws-ec2-metadata-token", token); status != http.StatusOK || body != "i-0123" {
		t.Errorf("with a token: %d %q", status, body)
	}
	f.later.Store(int64(time.Minute))
	if status, _ := f.do(t, http.MethodGet, "/latest/meta-data/instance-id", "X-aws-ec2-metadata-token", token); status != http.StatusUnauthorized {
		t.Errorf("with a token that has ended: %d, want 401", status)
	}
}

func TestATokenNeedsALifetimeAndNoProxy(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, ttl := range []string{"", "0", "21601", "soon"} {
		if status, _ := f.do(t, http.MethodPut, "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", ttl); status != http.StatusBadRequest {
			t.Errorf("lifetime %q: %d, want 400", ttl, status)
		}
	}
	status, _ := f.do(t, http.MethodPut, "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "60", "X-Forwarded-For", "10.0.0.1")
	if status != http.StatusForbidden {
		t.Errorf("through a proxy: %d, want 403", status)
	}
}

func TestContents(t *testing.T) {
	t.Parallel()
	f := start(t)
	token := f.token(t, "21600")
	for path, want := range map[string]string{
		"/latest/meta-data/local-ipv4":                  "10.0.1.5",
		"/latest/meta-data/local-hostname":              "ip-10-0-1-5.eu-west-1.compute.internal",
		"/latest/meta-data/placement/availability-zone": "eu-west-1b",
		"/latest/meta-data/placement/region":            "eu-west-1",
		"/latest/meta-data/placement/":                  "availability-zone\nregion",
		"/latest/meta-data/iam/":                        "info\nsecurity-credentials/",
		"/latest/meta-data/iam/security-credentials/":   "node",
		"/latest/user-data":                             "#!/bin/sh\n",
	} {
		if status, body := f.do(t, http.MethodGet, path, "X-aws-ec2-metadata-token", token); status != http.StatusOK || body != want {
			t.Errorf("%s: %d %q, want %q", path, status, body, want)
		}
	}
	if status, _ := f.do(t, http.MethodGet, "/latest/meta-data/public-ipv4", "X-aws-ec2-metadata-token", token); status != http.StatusNotFound {
		t.Errorf("public address of a machine without one: %d, want 404", status)
	}
	_, body := f.do(t, http.MethodGet, "/latest/meta-data/iam/security-credentials/node", "X-aws-ec2-metadata-token", token)
	var credentials map[string]string
	if err := json.NewDecoder(strings.NewReader(body)).Decode(&credentials); err != nil {
		t.Fatal(err)
	}
	if credentials["AccessKeyId"] != "ASIA1" || credentials["Expiration"] != "2026-01-02T04:04:05Z" || credentials["Code"] != "Success" {
		t.Errorf("credentials are %v", credentials)
	}
}
