// Package runapitest helps to test the HTTP API of a service of runs: an API with
// keys, over the real engine with its runs and its cluster in memory, the cases of
// requests in a file, and random requests.
package runapitest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/httpapi"
)

// The API keys that there are.
const (
	Key      = "a-key-of-the-test"
	OtherKey = "a-key-of-somebody-else"
)

// API is the HTTP side of a service under test.
type API struct {
	Handler *httpapi.API
}

// Serve makes an API with the keys.
func Serve(tb testing.TB, of func(httpapi.Config) (*httpapi.API, error)) API {
	tb.Helper()
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(tb.TempDir(), "keys")
	line := func(name, key string) string {
		digest := sha256.Sum256([]byte(key))
		return name + ":" + hex.EncodeToString(digest[:]) + "\n"
	}
	if err := os.WriteFile(path, []byte(line("tester", Key)+line("other", OtherKey)), 0o600); err != nil {
		tb.Fatal(err)
	}
	keys, err := httpapi.OpenKeys(path, log)
	if err != nil {
		tb.Fatal(err)
	}
	handler, err := of(httpapi.Config{Keys: keys, Log: log, Registry: prometheus.NewRegistry(), DigestKey: []byte("a-digest-key-of-the-test")})
	if err != nil {
		tb.Fatal(err)
	}
	return API{Handler: handler}
}

// Do sends a request with Key; headers override, empty ones remove.
func (a API) Do(method, path, body string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.Header.Set("X-Api-Key", Key)
	if body != "" || method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range headers {
		r.Header.Del(k)
		if v != "" {
			r.Header.Set(k, v)
		}
	}
	w := httptest.NewRecorder()
	a.Handler.ServeHTTP(w, r)
	return w
}

// Decode reads an answer.
func Decode[T any](tb testing.TB, w *httptest.ResponseRecorder) T {
	tb.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		tb.Fatalf("answer %d %s: %v", w.Code, w.Body, err)
	}
	return v
}

// Refused fails unless the answer is the problem of that status and code.
func Refused(tb testing.TB, w *httptest.ResponseRecorder, status int, code string) api.Problem {
	tb.Helper()
	p := Decode[api.Problem](tb, w)
	if w.Code != status || p.Code != code {
		tb.Errorf("status %d, problem %+v, want %d %s", w.Code, p, status, code)
	}
	return p
}
