package httpapi_test

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubeopera/platform/shared/httpapi"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	tag := httpapi.ETag("v17")
	for header, want := range map[string]bool{
		`"v17"`: true, `W/"v17"`: true, `"v1", "v17"`: true, `*`: true, ` "v17" `: true,
		``: false, `"v1"`: false, `v17`: false, `"v170"`: false,
	} {
		if got := (httpapi.Watch{IfNoneMatch: header}).Has(tag); got != want {
			t.Errorf("If-None-Match %s: %t", header, got)
		}
	}
	for wait, want := range map[string]time.Duration{"": 0, "30s": 30 * time.Second, "1m0s": time.Minute, "250ms": 250 * time.Millisecond} {
		if got := (httpapi.Watch{Wait: wait}).Most(); got != want {
			t.Errorf("wait=%s: %s", wait, got)
		}
	}
}

func TestCursorBelongsToItsFilter(t *testing.T) {
	t.Parallel()
	type filter struct{ Status, Environment string }
	cursor, err := httpapi.Cursor("01938f3a-1c2d-7abc-8def-000000000001", filter{"failed", "a"})
	if err != nil {
		t.Fatal(err)
	}
	if len(cursor) > httpapi.MaxCursor {
		t.Errorf("%d bytes", len(cursor))
	}
	if last, err := httpapi.ParseCursor(cursor, filter{"failed", "a"}); err != nil || last != "01938f3a-1c2d-7abc-8def-000000000001" {
		t.Errorf("%q, %v", last, err)
	}
	if last, err := httpapi.ParseCursor("", filter{}); err != nil || last != "" {
		t.Errorf("the empty cursor: %q, %v", last, err)
	}
	forged, err := httpapi.Cursor("\x00'\xff", filter{"failed", "a"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cursor string
		filter filter
	}{
		"of what is no id":     {forged, filter{"failed", "a"}},
		"another filter":       {cursor, filter{"failed", "b"}},
		"no base64":            {"%%%", filter{"failed", "a"}},
		"too short":            {cursor[:10], filter{"failed", "a"}},
		"an id":                {"01938f3a-1c2d-7abc-8def-000000000001", filter{"failed", "a"}},
		"with a byte too much": {cursor + "=", filter{"failed", "a"}},
	} {
		if _, err := httpapi.ParseCursor(c.cursor, c.filter); !errors.Is(err, httpapi.ErrCursor) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	cursor, err := httpapi.Cursor("x", "filter")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(cursor)
	f.Add("")
	f.Fuzz(func(t *testing.T, cursor string) {
		last, err := httpapi.ParseCursor(cursor, "filter")
		if err != nil || cursor == "" {
			return
		}
		if again, err := httpapi.Cursor(last, "filter"); err != nil || again != cursor {
			t.Errorf("%q gives %q, which gives %q, %v", cursor, last, again, err)
		}
	})
}

// digests is an API whose operation answers with the key and the digest of a request.
func digests(t *testing.T, digestKey string) func(method, path, repeat, body string) (status int, answer string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	type input struct {
		httpapi.Repeatable
		Body *startRequest
	}
	type output struct {
		Body []string
	}
	api, err := httpapi.New(httpapi.Config{
		Title: "test", Version: "v1", Keys: openKeys(t, log), Log: log, Registry: prometheus.NewRegistry(), DigestKey: []byte(digestKey),
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := func(ctx context.Context, in *input) (*output, error) {
		sum, err := httpapi.RequestDigest(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &output{Body: []string{in.Key(), hex.EncodeToString(sum)}}, nil
	}
	for _, path := range []string{"/runs", "/other"} {
		huma.Register(api.Huma(), huma.Operation{OperationID: "start-" + path[1:], Method: http.MethodPost, Path: path}, handler)
	}
	huma.Register(api.Huma(), huma.Operation{OperationID: "put", Method: http.MethodPut, Path: "/runs"}, handler)
	return func(method, path, repeat, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, "/api/v1"+path, strings.NewReader(body))
		r.Header.Set("X-Api-Key", key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", repeat)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
}

func TestRequestDigest(t *testing.T) {
	t.Parallel()
	do, rekeyed := digests(t, "a-key"), digests(t, "another-key")
	const body = `{"name":"a","region":"eu-west-1","tags":{"x":"1","y":"2"}}`
	_, want := do(http.MethodPost, "/runs", "k", body)
	for name, body := range map[string]string{
		"other spaces": `{ "name" : "a", "region":"eu-west-1","tags":{"x":"1","y":"2"} }`, "another order": `{"tags":{"y":"2","x":"1"},"region":"eu-west-1","name":"a"}`,
	} {
		if _, got := do(http.MethodPost, "/runs", "k", body); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	others := []string{want}
	for name, do := range map[string]func() (int, string){
		"another body":   func() (int, string) { return do(http.MethodPost, "/runs", "k", strings.Replace(body, `"a"`, `"b"`, 1)) },
		"no body":        func() (int, string) { return do(http.MethodPost, "/runs", "k", "") },
		"another path":   func() (int, string) { return do(http.MethodPost, "/other", "k", body) },
		"another method": func() (int, string) { return do(http.MethodPut, "/runs", "k", body) },
		"another secret": func() (int, string) { return rekeyed(http.MethodPost, "/runs", "k", body) },
	} {
		status, got := do()
		if status != http.StatusOK || slices.Contains(others, got) {
			t.Errorf("%s: status %d, %s", name, status, got)
		}
		others = append(others, got)
	}
}

func TestRepeatableKeys(t *testing.T) {
	t.Parallel()
	do := digests(t, "a-key")
	for key, want := range map[string]string{`abc`: "abc", `"abc"`: "abc", `a b`: "a b", strings.Repeat("k", 255): strings.Repeat("k", 255), ``: ""} {
		if status, got := do(http.MethodPost, "/runs", key, ""); status != http.StatusOK || !strings.HasPrefix(got, `["`+want+`",`) {
			t.Errorf("key %s: status %d, %s", key, status, got)
		}
	}
	for _, key := range []string{strings.Repeat("k", 256), `"abc`, `""`, "ä"} {
		if status, got := do(http.MethodPost, "/runs", key, ""); status != http.StatusUnprocessableEntity || !strings.Contains(got, "header.Idempotency-Key") {
			t.Errorf("key %s: status %d, %s", key, status, got)
		}
	}
	if status, got := digests(t, "")(http.MethodPost, "/runs", "k", ""); status != http.StatusInternalServerError {
		t.Errorf("without a secret: status %d, %s", status, got)
	}
}

// TestABodyWhereNoneIsTaken is refused: what it says would be lost unseen.
func TestABodyWhereNoneIsTaken(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	api, err := httpapi.New(httpapi.Config{Title: "test", Version: "v1", Keys: openKeys(t, log), Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodGet} {
		huma.Register(api.Huma(), huma.Operation{OperationID: method, Method: method, Path: "/runs"},
			func(context.Context, *struct{}) (*struct{}, error) { return nil, nil })
	}
	for _, c := range []struct {
		method, body string
		want         int
	}{
		{http.MethodPost, `{"credential_id":"x"}`, http.StatusBadRequest},
		{http.MethodDelete, `x`, http.StatusBadRequest},
		{http.MethodPost, ``, http.StatusNoContent},
		{http.MethodGet, `{}`, http.StatusNoContent}, // a GET means nothing by its body
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/api/v1/runs", strings.NewReader(c.body))
		r.Header.Set("X-Api-Key", key)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s with body %q: status %d, want %d: %s", c.method, c.body, w.Code, c.want, w.Body)
		}
	}
}
