package cloudcred_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/cloudcred"
)

const (
	id     = "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"
	baseID = "5f3c8d1e-93c0-4f5a-b6a9-5f2f4b6f1d22"
	apiKey = "the-api-key-of-the-service"
	canary = "canaryCANARYcanary"
	good   = `{"id":"` + id + `","name":"acme","kind":"access_key","access_key":{"access_key_id":"AKIAIOSFODNN7EXAMPLE","secret_access_key":"` + canary + `"}}`
)

// server is an auth-service inside of the process: each request gets the next
// answer, the last one for ever.
type server struct {
	answers  []http.HandlerFunc
	requests []*http.Request
}

var errRefused = errors.New("connection refused")

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, r)
	w := httptest.NewRecorder()
	s.answers[min(len(s.requests), len(s.answers))-1](w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if w.Code == 1 { // the tests' word for no answer
		return nil, errRefused
	}
	return w.Result(), nil
}

func respond(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://elsewhere/")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func refuse(w http.ResponseWriter, _ *http.Request) { w.(*httptest.ResponseRecorder).Code = 1 }

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func newClient(tb testing.TB, s *server) (client *cloudcred.Client, keyFile string) {
	tb.Helper()
	keyFile = filepath.Join(tb.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(apiKey+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	client, err := cloudcred.NewClient(cloudcred.Config{BaseURL: "http://auth-service.kubeopera-core:8080/base/", APIKeyFile: keyFile, HTTPClient: &http.Client{Transport: s}})
	if err != nil {
		tb.Fatal(err)
	}
	return client, keyFile
}

func TestResolve(t *testing.T) {
	t.Parallel()
	session := `{"id":"` + id + `","name":"acme","kind":"access_key","created_at":"new field","access_key":{"access_key_id":"ASIAIOSFODNN7EXAMPLE","secret_access_key":"s","session_token":"to/ken+=","expires_at":"2026-11-30T12:00:00+01:00"}}`
	role := `{"id":"` + id + `","name":"acme role","kind":"assume_role","assume_role":{"role_arn":"arn:aws:iam::123456789012:role/r","external_id":"` + canary + `","session_name":"ops","duration_seconds":3600,"base":"` + baseID + `"}}`
	least := `{"id":"` + id + `","kind":"assume_role","assume_role":{"role_arn":"arn:aws:iam::123456789012:role/r","base":"` + baseID + `"}}`
	base := strings.Replace(good, id, baseID, 1)
	tests := []struct {
		name     string
		answers  []http.HandlerFunc
		want     cloudcred.Credential
		err      error
		text     string
		requests int
	}{
		{"access key", []http.HandlerFunc{respond(200, good)}, cloudcred.Credential{ID: id, Name: "acme", Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: canary}}, nil, "", 1},
		{"session", []http.HandlerFunc{respond(200, session)}, cloudcred.Credential{ID: id, Name: "acme", Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{
			ID: "ASIAIOSFODNN7EXAMPLE", Secret: "s", SessionToken: "to/ken+=", ExpiresAt: time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC),
		}}, nil, "", 1},
		{"after failures", []http.HandlerFunc{refuse, respond(503, canary), respond(200, good)}, cloudcred.Credential{ID: id, Name: "acme", Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: canary}}, nil, "", 3},
		{"unknown", []http.HandlerFunc{respond(404, canary)}, cloudcred.Credential{}, cloudcred.ErrNotFound, "create it in auth-service", 1},
		{"key is wrong", []http.HandlerFunc{respond(401, canary)}, cloudcred.Credential{}, cloudcred.ErrForbidden, "AUTH_SERVICE_API_KEY_FILE", 1},
		{"forbidden", []http.HandlerFunc{respond(403, canary)}, cloudcred.Credential{}, cloudcred.ErrForbidden, "allow the API key", 1},
		{"down", []http.HandlerFunc{refuse}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "connection refused; check that it runs", 3},
		{"hanging", []http.HandlerFunc{hang}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "deadline exceeded; check that it runs", 3},
		{"broken", []http.HandlerFunc{respond(500, canary)}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "it answered 500 3 times", 3},
		{"redirect", []http.HandlerFunc{respond(302, canary)}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "status 302", 1},
		{"too many requests", []http.HandlerFunc{respond(429, canary)}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "status 429", 1},
		{"kind of the future", []http.HandlerFunc{respond(200, `{"id":"`+id+`","kind":"`+canary+`"}`)}, cloudcred.Credential{}, cloudcred.ErrUnsupported, "neither access_key nor assume_role", 1},
		{"role", []http.HandlerFunc{respond(200, role), respond(200, base)}, cloudcred.Credential{ID: id, Name: "acme role", Kind: cloudcred.KindAssumeRole, AssumeRole: &cloudcred.AssumeRole{
			RoleARN: "arn:aws:iam::123456789012:role/r", ExternalID: canary, SessionName: "ops", Duration: time.Hour,
			Base: cloudcred.Credential{ID: baseID, Name: "acme", Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: canary}},
		}}, nil, "", 2},
		{"role, after failures of its base", []http.HandlerFunc{respond(200, least), refuse, respond(500, canary), respond(200, base)}, cloudcred.Credential{ID: id, Kind: cloudcred.KindAssumeRole, AssumeRole: &cloudcred.AssumeRole{
			RoleARN: "arn:aws:iam::123456789012:role/r",
			Base:    cloudcred.Credential{ID: baseID, Name: "acme", Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: canary}},
		}}, nil, "", 4},
		{"role without one", []http.HandlerFunc{respond(200, `{"id":"`+id+`","kind":"assume_role"}`)}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "it has no assume_role", 1},
		{"role that is none", []http.HandlerFunc{respond(200, strings.Replace(role, "role/r", "user/"+canary, 1))}, cloudcred.Credential{}, cloudcred.ErrInvalid, "role_arn is no ARN", 1},
		{"external id of two lines", []http.HandlerFunc{respond(200, strings.Replace(role, canary, canary+`\ncredential_process = sh`, 1))}, cloudcred.Credential{}, cloudcred.ErrInvalid, "external_id has not", 1},
		{"base that is no id", []http.HandlerFunc{respond(200, strings.Replace(role, baseID, "../"+canary, 1))}, cloudcred.Credential{}, cloudcred.ErrInvalid, "base is not the id of another credential", 1},
		{"base that is the role itself", []http.HandlerFunc{respond(200, strings.Replace(role, baseID, id, 1))}, cloudcred.Credential{}, cloudcred.ErrInvalid, "base is not the id of another credential", 1},
		{"unknown base", []http.HandlerFunc{respond(200, role), respond(404, canary)}, cloudcred.Credential{}, cloudcred.ErrInvalid, "its base credential " + baseID + " is not in auth-service", 2},
		{"forbidden base", []http.HandlerFunc{respond(200, role), respond(403, canary)}, cloudcred.Credential{}, cloudcred.ErrForbidden, "its base: credential " + baseID, 2},
		{"base out of reach", []http.HandlerFunc{respond(200, role), refuse}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "its base: credential " + baseID, 4},
		{"base of the future", []http.HandlerFunc{respond(200, role), respond(200, strings.Replace(base, `"access_key"`, `"`+canary+`"`, 1))}, cloudcred.Credential{}, cloudcred.ErrUnsupported, "its base: credential " + baseID, 2},
		{"chain", []http.HandlerFunc{respond(200, role), respond(200, strings.NewReplacer(id, baseID, baseID, id).Replace(role))}, cloudcred.Credential{}, cloudcred.ErrInvalid, "is of kind assume_role and not access_key: roles cannot be chained", 2},
		{"duration for a string", []http.HandlerFunc{respond(200, strings.Replace(role, "3600", `"`+canary+`"`, 1))}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "field assume_role.duration_seconds has another type", 1},
		{"no kind", []http.HandlerFunc{respond(200, `{"id":"`+id+`"}`)}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "it has no kind", 1},
		{"another credential", []http.HandlerFunc{respond(200, strings.Replace(good, id, baseID, 1))}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "it is about another id", 1},
		{"no key", []http.HandlerFunc{respond(200, `{"id":"`+id+`","kind":"access_key"}`)}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "it has no access_key", 1},
		{"empty secret", []http.HandlerFunc{respond(200, strings.Replace(good, canary, "", 1))}, cloudcred.Credential{}, cloudcred.ErrInvalid, "secret_access_key are required", 1},
		{"two lines", []http.HandlerFunc{respond(200, strings.Replace(good, canary, canary+`\ncredential_process = touch /tmp/x`, 1))}, cloudcred.Credential{}, cloudcred.ErrInvalid, "secret_access_key is longer than", 1},
		{"key id with a bracket", []http.HandlerFunc{respond(200, strings.Replace(good, "AKIA", "]"+canary, 1))}, cloudcred.Credential{}, cloudcred.ErrInvalid, "access_key_id is longer than", 1},
		{"number for a string", []http.HandlerFunc{respond(200, strings.Replace(good, `"`+canary+`"`, "123454321", 1))}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "field access_key.secret_access_key has another type", 1},
		{"time that is none", []http.HandlerFunc{respond(200, strings.Replace(session, "2026", canary, 1))}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "a time that is none", 1},
		{"not JSON", []http.HandlerFunc{respond(200, "<html>"+canary)}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "not JSON", 1},
		{"two values", []http.HandlerFunc{respond(200, good+good)}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "not JSON", 1},
		{"endless", []http.HandlerFunc{respond(200, `{"id":"`+strings.Repeat(canary, 100_000))}, cloudcred.Credential{}, cloudcred.ErrUnavailable, "longer than 65536 bytes", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &server{answers: tt.answers}
				client, _ := newClient(t, s)
				start := time.Now()
				got, err := client.Resolve(t.Context(), id)
				if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
					t.Fatalf("got error %v, want %v", err, tt.err)
				}
				if err != nil && (!strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), id)) {
					t.Errorf("error %q lacks %q or the id", err, tt.text)
				}
				if err != nil && (strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), apiKey) || strings.Contains(err.Error(), "123454321")) {
					t.Errorf("the error holds a secret: %v", err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("credential (-want +got):\n%s", diff)
				}
				if len(s.requests) != tt.requests {
					t.Errorf("%d requests, want %d", len(s.requests), tt.requests)
				}
				if took := time.Since(start); took > 17*time.Second {
					t.Errorf("took %s", took)
				}
				r := s.requests[0]
				if got, want := r.Method+" "+r.URL.String()+" "+r.Header.Get("X-Api-Key"), "GET http://auth-service.kubeopera-core:8080/base/api/v1/cloud-credentials/"+id+" "+apiKey; got != want {
					t.Errorf("request %q, want %q", got, want)
				}
			})
		})
	}
}

func TestResolveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{"while waiting for an answer": hang, "between attempts": refuse} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := newClient(t, &server{answers: []http.HandlerFunc{answer}})
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if _, err := client.Resolve(ctx, id); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cloudcred.ErrUnavailable) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestResolveRefusesIDsThatAreNone(t *testing.T) {
	t.Parallel()
	s := &server{answers: []http.HandlerFunc{respond(200, good)}}
	client, _ := newClient(t, s)
	for _, bad := range []string{"", ".", "..", "../keys", "a/b", "a?b", "a b", "ä", "a%2fb", strings.ToUpper(id), id + "0", id + "\n", "{" + id + "}", strings.ReplaceAll(id, "-", "")} {
		if _, err := client.Resolve(t.Context(), bad); !errors.Is(err, cloudcred.ErrNotFound) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	if len(s.requests) > 0 {
		t.Errorf("asked for %s", s.requests[0].URL)
	}
}

func TestKeyIsReadForEveryCall(t *testing.T) {
	t.Parallel()
	s := &server{answers: []http.HandlerFunc{respond(200, good)}}
	client, keyFile := newClient(t, s)
	if err := os.WriteFile(keyFile, []byte("another-key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resolve(t.Context(), id); err != nil || s.requests[0].Header.Get("X-Api-Key") != "another-key" {
		t.Errorf("%v, key %q", err, s.requests[0].Header.Get("X-Api-Key"))
	}
	for _, broken := range []string{"", "two\nlines-" + canary, "umlaut-ä-" + canary} {
		if err := os.WriteFile(keyFile, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resolve(t.Context(), id); !errors.Is(err, cloudcred.ErrUnavailable) || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: got %v", broken, err)
		}
	}
}

func TestNewClientRefuses(t *testing.T) {
	t.Parallel()
	_, keyFile := newClient(t, &server{})
	for _, c := range []cloudcred.Config{
		{BaseURL: "", APIKeyFile: keyFile},
		{BaseURL: "auth-service:80", APIKeyFile: keyFile},
		{BaseURL: "ftp://a", APIKeyFile: keyFile},
		{BaseURL: "http://user:" + canary + "@a", APIKeyFile: keyFile},
		{BaseURL: "http://a?x=" + canary, APIKeyFile: keyFile},
		{BaseURL: "://" + canary, APIKeyFile: keyFile},
		{BaseURL: "http://a", APIKeyFile: keyFile + "x"},
		{BaseURL: "http://a"},
	} {
		if _, err := cloudcred.NewClient(c); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}
