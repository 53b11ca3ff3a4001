// Package cloudcredtest checks that a server keeps the contract between
// cluster-provisioner and auth-service, docs/api/auth-service.yaml. The fake of
// the simulator runs it; so can auth-service itself.
package cloudcredtest

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/cloudcred"
)

// Target is an auth-service under test, empty at first.
type Target struct {
	BaseURL string
	APIKey  string // may read every credential that is put
	// Put stores a credential of any kind; of a role's base it takes the id.
	Put func(tb testing.TB, c cloudcred.Credential)
	// PutGit stores a Git credential.
	PutGit func(tb testing.TB, c cloudcred.GitCredential)
	// PutSSH stores a key for machines.
	PutSSH func(tb testing.TB, c cloudcred.SSHCredential)
}

const (
	id      = "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"
	session = "7d5b2a90-5a0e-4c55-8a4e-3f1f6a1f0c11"
	role    = "5f3c8d1e-93c0-4f5a-b6a9-5f2f4b6f1d22"
	chained = "b1c2d3e4-0000-4000-8000-0a0b0c0d0e0f"
	unknown = "00000000-0000-4000-8000-000000000000"
)

// Run runs the suite; start gives each test a server of its own.
func Run(t *testing.T, start func(tb testing.TB) Target) {
	t.Helper()
	ends := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	stored := []cloudcred.Credential{
		{ID: id, Name: "a long-lived key", Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}},
		{ID: session, Name: `a "session" of ☁`, Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{
			ID: "ASIAIOSFODNN7EXAMPLE", Secret: "abc/+=", SessionToken: cloudcred.Secret(strings.Repeat("IQoJb3JpZ2luX2Vj", 100) + "=="), ExpiresAt: ends,
		}},
	}
	assumed := cloudcred.Credential{ID: role, Name: "a role", Kind: cloudcred.KindAssumeRole, AssumeRole: &cloudcred.AssumeRole{
		RoleARN: "arn:aws:iam::123456789012:role/teams/a+b=c,d.e@f-g_h", ExternalID: "acme:1/=+,.@-_", SessionName: "ops+=,.@-_", Duration: 2 * time.Hour, Base: stored[0],
	}}
	t.Run("a stored credential is answered as it is", func(t *testing.T) {
		target := start(t)
		for _, c := range stored {
			target.Put(t, c)
		}
		client := newClient(t, target.BaseURL, target.APIKey)
		for _, want := range stored {
			got, err := client.Resolve(t.Context(), want.ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("credential (-want +got):\n%s", diff)
			}
			if got.AccessKey.Secret.Reveal() != want.AccessKey.Secret.Reveal() {
				t.Error("another secret was answered")
			}
		}
	})
	t.Run("the answer is JSON that no cache keeps", func(t *testing.T) {
		target := start(t)
		target.Put(t, stored[0])
		status, header := get(t, target, id, http.Header{"X-Api-Key": {target.APIKey}})
		if got := header.Get("Content-Type"); status != http.StatusOK || !strings.HasPrefix(got, "application/json") {
			t.Errorf("got %d %s", status, got)
		}
		if got := header.Get("Cache-Control"); !strings.Contains(got, "no-store") {
			t.Errorf("Cache-Control is %q", got)
		}
	})
	t.Run("a role is answered as it is, and its base by itself", func(t *testing.T) {
		target := start(t)
		target.Put(t, stored[0])
		target.Put(t, stored[1])
		least := cloudcred.Credential{ID: chained, Name: "another role", Kind: cloudcred.KindAssumeRole, AssumeRole: &cloudcred.AssumeRole{
			RoleARN: "arn:aws-cn:iam::123456789012:role/r", Base: stored[1],
		}}
		for _, want := range []cloudcred.Credential{assumed, least} {
			target.Put(t, want)
			got, err := newClient(t, target.BaseURL, target.APIKey).Resolve(t.Context(), want.ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("credential (-want +got):\n%s", diff)
			}
			if got.AssumeRole.ExternalID.Reveal() != want.AssumeRole.ExternalID.Reveal() {
				t.Error("another external id was answered")
			}
		}
	})
	t.Run("a role is answered whatever its base is", func(t *testing.T) {
		target := start(t)
		target.Put(t, assumed)
		wantError(t, target, target.APIKey, role, cloudcred.ErrInvalid) // the base is not there
		target.Put(t, cloudcred.Credential{ID: chained, Kind: cloudcred.KindAssumeRole, AssumeRole: &cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/r", Base: assumed}})
		wantError(t, target, target.APIKey, chained, cloudcred.ErrInvalid) // the base is a role
	})
	t.Run("a Git credential is answered as it is, and only to those who ask for one", func(t *testing.T) {
		target := start(t)
		target.Put(t, stored[0])
		client := newClient(t, target.BaseURL, target.APIKey)
		for _, want := range []cloudcred.GitCredential{
			{ID: session, Name: "a token", Kind: cloudcred.KindGitToken, Username: "robot$acme", Token: "glpat-a_b"},
			{ID: role, Kind: cloudcred.KindGitToken, Token: "t"},
			{ID: chained, Name: "a key", Kind: cloudcred.KindGitSSHKey, PrivateKey: "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n", KnownHosts: "git.example.com ssh-ed25519 AAAA\n"},
		} {
			target.PutGit(t, want)
			got, err := client.ResolveGit(t.Context(), want.ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || got.Token.Reveal() != want.Token.Reveal() || got.PrivateKey.Reveal() != want.PrivateKey.Reveal() {
				t.Errorf("credential (-want +got), or another secret:\n%s", diff)
			}
			wantError(t, target, target.APIKey, want.ID, cloudcred.ErrUnsupported)
		}
		if _, err := client.ResolveGit(t.Context(), id); !errors.Is(err, cloudcred.ErrUnsupported) {
			t.Errorf("an AWS credential for Git: %v", err)
		}
	})
	t.Run("an SSH key is answered as it is, and only to those who ask for one", func(t *testing.T) {
		target := start(t)
		target.Put(t, stored[0])
		client := newClient(t, target.BaseURL, target.APIKey)
		for _, want := range []cloudcred.SSHCredential{
			{ID: session, Name: "a key", PrivateKey: "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n"},
			{ID: role, PrivateKey: "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMHcCAQEE\n-----END ENCRYPTED PRIVATE KEY-----\n", Passphrase: "horse ☂", Certificate: "ssh-ed25519-cert-v01@openssh.com AAAA me"},
		} {
			target.PutSSH(t, want)
			got, err := client.ResolveSSH(t.Context(), want.ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || got.PrivateKey.Reveal() != want.PrivateKey.Reveal() || got.Passphrase.Reveal() != want.Passphrase.Reveal() {
				t.Errorf("credential (-want +got), or another secret:\n%s", diff)
			}
			wantError(t, target, target.APIKey, want.ID, cloudcred.ErrUnsupported)
		}
		if _, err := client.ResolveSSH(t.Context(), id); !errors.Is(err, cloudcred.ErrUnsupported) {
			t.Errorf("an AWS credential for machines: %v", err)
		}
	})
	t.Run("an unknown id is not found", func(t *testing.T) {
		target := start(t)
		target.Put(t, stored[0])
		wantError(t, target, target.APIKey, unknown, cloudcred.ErrNotFound)
		wantError(t, target, target.APIKey, strings.ToUpper(id), cloudcred.ErrNotFound)
	})
	t.Run("nothing is answered without a valid key", func(t *testing.T) {
		target := start(t)
		target.Put(t, stored[0])
		for _, key := range []string{target.APIKey + "x", target.APIKey[:len(target.APIKey)-1], "x"} {
			wantError(t, target, key, id, cloudcred.ErrForbidden)
			wantError(t, target, key, unknown, cloudcred.ErrForbidden) // what exists is not told either
		}
		for _, header := range []http.Header{{}, {"X-Api-Key": {""}}, {"Authorization": {"Bearer " + target.APIKey}}} {
			if status, _ := get(t, target, id, header); status != http.StatusUnauthorized {
				t.Errorf("header %v: got %d, want 401", header, status)
			}
		}
	})
}

func newClient(tb testing.TB, baseURL, key string) *cloudcred.Client {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		tb.Fatal(err)
	}
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	client, err := cloudcred.NewClient(cloudcred.Config{BaseURL: baseURL, APIKeyFile: file, HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

func wantError(tb testing.TB, target Target, key, id string, want error) {
	tb.Helper()
	if _, err := newClient(tb, target.BaseURL, key).Resolve(tb.Context(), id); !errors.Is(err, want) {
		tb.Errorf("%s: got %v, want %v", id, err, want)
	}
}

// get asks without the client.
func get(tb testing.TB, target Target, id string, header http.Header) (status int, answered http.Header) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target.BaseURL+"/api/v1/cloud-credentials/"+id, nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header = header
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(r)
	if err != nil {
		tb.Fatal(err)
	}
	_ = res.Body.Close() // only the head counts
	return res.StatusCode, res.Header
}
