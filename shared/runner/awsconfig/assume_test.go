package awsconfig

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/cloudcred"
)

const role = "arn:aws:iam::123456789012:role/teams/a+b/Provisioner"

// roleCredential is a role with all that can be stored of it.
func roleCredential() cloudcred.Credential {
	return cloudcred.Credential{Kind: cloudcred.KindAssumeRole, AssumeRole: &cloudcred.AssumeRole{
		RoleARN: role, ExternalID: "acme:1/=+,.@-_", SessionName: "=+,.@-_", Duration: 2 * time.Hour,
		Base: cloudcred.Credential{Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIABASE", Secret: "secret/of+base="}},
	}}
}

// write puts a credential's files where a run finds them.
func write(tb testing.TB, c cloudcred.Credential) Files {
	tb.Helper()
	dir := tb.TempDir()
	f := FilesIn(dir)
	for name, content := range c.Files("eu-west-1", "acme-prod") {
		if err := os.WriteFile(dir+"/"+name, content, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return f
}

// stsFake is AWS STS, and refuses AssumeRole with a code if it has one.
type stsFake struct {
	lifetime time.Duration // of a session
	code     string

	mu    sync.Mutex
	calls []url.Values
	keys  []string // who made each call
}

func (s *stsFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := r.ParseForm(); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.calls = append(s.calls, r.PostForm)
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(scope, "/")
	s.keys = append(s.keys, key)
	switch {
	case r.PostForm.Get("Action") == "GetCallerIdentity":
		_, _ = fmt.Fprintf(w, "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account><Arn>arn:aws:sts::123456789012:assumed-role/Provisioner/x</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>")
	case r.PostForm.Get("Action") != "AssumeRole":
		w.WriteHeader(http.StatusBadRequest)
	case s.code != "":
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "<ErrorResponse><Error><Code>%s</Code><Message>User: arn:aws:iam::123456789012:user/base is not authorized to perform: sts:AssumeRole on resource: %s</Message></Error></ErrorResponse>", s.code, role)
	default:
		_, _ = fmt.Fprintf(w, "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA%d</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
			len(s.calls), time.Now().Add(s.lifetime).UTC().Format(time.RFC3339))
	}
}

func (s *stsFake) actions() (actions []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		actions = append(actions, c.Get("Action"))
	}
	return actions
}

// serve lets the SDK find the fake as a run in the simulator does.
func (s *stsFake) serve(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
}

func TestLoad_assumes_the_role(t *testing.T) {
	fake := &stsFake{lifetime: time.Hour}
	fake.serve(t)
	cfg, err := Load(t.Context(), write(t, roleCredential()), "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	if len(fake.calls) > 0 {
		t.Errorf("Load called AWS: %v", fake.calls)
	}
	id, err := Identify(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if id.Principal != role {
		t.Errorf("principal %s, want the role with its path", id.Principal)
	}
	// IAM is not asked for the path: the credential has it.
	if diff := cmp.Diff([]string{"AssumeRole", "GetCallerIdentity"}, fake.actions()); diff != "" {
		t.Fatalf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"AKIABASE", "ASIA1"}, fake.keys); diff != "" {
		t.Errorf("callers (-want +got):\n%s", diff)
	}
	want := url.Values{
		"Action": {"AssumeRole"}, "Version": {"2011-06-15"}, "RoleArn": {role}, "RoleSessionName": {"=+,.@-_"},
		"ExternalId": {"acme:1/=+,.@-_"}, "DurationSeconds": {"7200"},
	}
	if diff := cmp.Diff(want, fake.calls[0]); diff != "" {
		t.Errorf("AssumeRole (-want +got):\n%s", diff)
	}
}

func TestLoad_renews_a_session_before_it_ends(t *testing.T) {
	for _, tt := range []struct {
		name     string
		lifetime time.Duration
		assumed  int
	}{
		{"far from its end", time.Hour, 1},
		{"close to its end", expiryWindow / 2, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fake := &stsFake{lifetime: tt.lifetime}
			fake.serve(t)
			cfg, err := Load(t.Context(), write(t, roleCredential()), "eu-west-1")
			if err != nil {
				t.Fatal(err)
			}
			client := sts.NewFromConfig(cfg)
			for range 3 {
				if _, err := client.GetCallerIdentity(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			actions := fake.actions()
			assumed := len(slices.DeleteFunc(actions, func(a string) bool { return a != "AssumeRole" }))
			if assumed != tt.assumed {
				t.Errorf("the role was assumed %d times, want %d", assumed, tt.assumed)
			}
		})
	}
}

func TestLoad_refused_role(t *testing.T) {
	tests := []struct {
		code  string
		want  Reason
		texts []string
	}{
		{"AccessDenied", ReasonDenied, []string{role, "User: arn:aws:iam::123456789012:user/base", "trust policy", "external id"}},
		{"ExpiredToken", ReasonExpired, []string{role, "base credential is expired"}},
		{"InvalidClientTokenId", ReasonInvalid, []string{role, "base credential is invalid"}},
		{"ValidationError", ReasonRole, []string{role, "ValidationError"}},
		{"InternalFailure", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.code, func(t *testing.T) {
			fake := &stsFake{code: tt.code}
			fake.serve(t)
			cfg, err := Load(t.Context(), write(t, roleCredential()), "eu-west-1")
			if err != nil {
				t.Fatal(err)
			}
			_, err = Identify(t.Context(), cfg)
			if err == nil {
				t.Fatal("no error")
			}
			refused, ok := errors.AsType[*RefusedError](err)
			if !ok {
				refused = &RefusedError{}
			}
			if refused.Reason != tt.want {
				t.Errorf("reason %q, want %q (%v)", refused.Reason, tt.want, err)
			}
			for _, text := range tt.texts {
				if !strings.Contains(refused.Error(), text) {
					t.Errorf("%q lacks %q", refused, text)
				}
			}
			for _, secret := range []string{"secret/of+base=", "acme:1/", "AKIABASE"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error shows %s: %v", secret, err)
				}
			}
		})
	}
}

func TestFiles_Secrets_of_a_role(t *testing.T) {
	t.Parallel()
	got, err := write(t, roleCredential()).Secrets()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"acme:1/=+,.@-_", "AKIABASE", "secret/of+base="}, got); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}
