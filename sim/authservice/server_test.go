package authservice_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/cloudcred/cloudcredtest"
	"github.com/kubeopera/platform/sim/authservice"
)

const (
	apiKey = "the-api-key-of-the-service"
	id     = "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs s until the test ends.
func serve(tb testing.TB, s *authservice.Server) (baseURL string) {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, listener) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

func newClient(tb testing.TB, baseURL string) *cloudcred.Client {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "key")
	if err := os.WriteFile(file, []byte(apiKey), 0o600); err != nil {
		tb.Fatal(err)
	}
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	c, err := cloudcred.NewClient(cloudcred.Config{BaseURL: baseURL, APIKeyFile: file, HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestContract(t *testing.T) {
	t.Parallel()
	cloudcredtest.Run(t, func(tb testing.TB) cloudcredtest.Target {
		tb.Helper()
		s := authservice.New(apiKey)
		return cloudcredtest.Target{
			BaseURL: serve(tb, s), APIKey: apiKey,
			Put: func(_ testing.TB, c cloudcred.Credential) {
				if c.AssumeRole != nil {
					s.PutAssumeRole(c.ID, c.Name, *c.AssumeRole)
					return
				}
				s.PutAccessKey(c.ID, c.Name, *c.AccessKey)
			},
			PutGit: func(_ testing.TB, c cloudcred.GitCredential) { s.PutGit(c) },
			PutSSH: func(_ testing.TB, c cloudcred.SSHCredential) { s.PutSSH(c) },
		}
	})
}

// TestExamplesOfTheContract holds the answers against those in the document.
func TestExamplesOfTheContract(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "api", "auth-service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type example struct {
		Value json.RawMessage `json:"value"`
	}
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct {
					Examples map[string]example `json:"examples"`
				} `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
	}
	if err := yaml.UnmarshalStrict(raw, new(any)); err != nil {
		t.Fatal(err) // a key twice
	}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	examples := doc.Paths["/api/v1/cloud-credentials/{id}"]["get"].Responses["200"].Content["application/json"].Examples
	s := authservice.New(apiKey)
	s.PutAccessKey(id, "acme production", cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"})
	s.PutAccessKey("7d5b2a90-5a0e-4c55-8a4e-3f1f6a1f0c11", "acme break glass", cloudcred.AccessKey{
		ID: "ASIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", SessionToken: "IQoJb3JpZ2luX2VjEXAMPLE==", ExpiresAt: time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC),
	})
	s.PutAssumeRole("5f3c8d1e-93c0-4f5a-b6a9-5f2f4b6f1d22", "acme role", cloudcred.AssumeRole{
		RoleARN: "arn:aws:iam::123456789012:role/kubeopera", ExternalID: "kubeopera-acme", Duration: time.Hour, Base: cloudcred.Credential{ID: id},
	})
	s.PutGit(cloudcred.GitCredential{ID: "3c1e6a77-0d1b-4a53-9d3e-0f5f3f6b2a10", Name: "acme gitops", Kind: cloudcred.KindGitToken, Username: "robot", Token: "glpat-EXAMPLE"})
	s.PutSSH(cloudcred.SSHCredential{ID: "9b2d7c14-6f0e-4f6b-8f5d-2f4a8c3d1e33", Name: "acme metal", PrivateKey: "-----BEGIN OPENSSH PRIVATE KEY-----\nEXAMPLE\n-----END OPENSSH PRIVATE KEY-----\n"})
	if len(examples) != 5 || doc.OpenAPI != "3.1.0" {
		t.Fatalf("the document has OpenAPI version %q and %d examples", doc.OpenAPI, len(examples))
	}
	for name, e := range examples {
		var want map[string]any
		if err := json.Unmarshal(e.Value, &want); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/cloud-credentials/"+want["id"].(string), nil)
		r.Header.Set("X-Api-Key", apiKey)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v in %s", name, err, w.Body)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-document +answer):\n%s", name, diff)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		fault    authservice.Fault
		want     error
		requests int
	}{
		{"none", authservice.Fault{}, nil, 1},
		{"down for a moment", authservice.Fault{Down: true, Times: 2}, nil, 3},
		{"down", authservice.Fault{Down: true}, cloudcred.ErrUnavailable, 3},
		{"broken for a moment", authservice.Fault{Status: 500, Times: 1}, nil, 2},
		{"broken", authservice.Fault{Status: 500}, cloudcred.ErrUnavailable, 3},
		{"forbidden", authservice.Fault{Status: 403}, cloudcred.ErrForbidden, 1},
		{"slow", authservice.Fault{Delay: 20 * time.Millisecond, Times: 1}, nil, 1},
		{"slower than the caller can wait", authservice.Fault{Delay: time.Hour}, context.DeadlineExceeded, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := authservice.New(apiKey)
			s.PutAccessKey(id, "acme", cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "s"})
			s.Fail(tt.fault)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			if errors.Is(tt.want, context.DeadlineExceeded) {
				ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
			}
			client := newClient(t, serve(t, s))
			if _, err := client.Resolve(ctx, id); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if got := s.Requests(); got != tt.requests {
				t.Errorf("%d requests, want %d", got, tt.requests)
			}
			s.Fail(authservice.Fault{})
			if _, err := client.Resolve(t.Context(), id); err != nil {
				t.Errorf("after the fault: %v", err)
			}
			s.Delete(id)
			if _, err := client.Resolve(t.Context(), id); !errors.Is(err, cloudcred.ErrNotFound) {
				t.Errorf("after deleting: %v", err)
			}
		})
	}
}
