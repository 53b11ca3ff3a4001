package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/redact"
)

func TestSecretDoesNotPrintItself(t *testing.T) {
	t.Parallel()
	const value = "wJalrXUtnFEMI"
	type credential struct {
		Name   string
		Secret redact.Secret
		More   []redact.Secret
		ByName map[string]redact.Secret
	}
	c := credential{"acme", value, []redact.Secret{value}, map[string]redact.Secret{"a": value}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "% x", "%10.3s", "%T %[1]v"} {
		fmt.Fprintf(&out, verb+"\n", redact.Secret(value))
		fmt.Fprintf(&out, verb+"\n", c)
		fmt.Fprintf(&out, verb+"\n", &c)
	}
	fmt.Fprintln(&out, c.Secret, c, fmt.Errorf("bad key %s: %w", c.Secret, fmt.Errorf("%v", c)))
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("credential", "secret", c.Secret, "all", c, "list", c.More)
	}
	if err := json.NewEncoder(&out).Encode(c); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), redact.Marker); n < 30 {
		t.Errorf("only %d markers in %s", n, out.String())
	}
	lower := strings.ToLower(out.String())
	for _, form := range []string{value, value[:3], fmt.Sprintf("%x", value), fmt.Sprintf("% x", value)} {
		if strings.Contains(lower, strings.ToLower(form)) {
			t.Errorf("%q was printed: %s", form, out.String())
		}
	}
	if got := c.Secret.Reveal(); got != value {
		t.Errorf("Reveal gives %q", got)
	}
}

func TestSecretReadsFromJSON(t *testing.T) {
	t.Parallel()
	var s struct{ Token, Absent redact.Secret }
	if err := json.Unmarshal([]byte(`{"Token":"value"}`), &s); err != nil {
		t.Fatal(err)
	}
	if s.Token.Reveal() != "value" || s.Absent.String() != "" {
		t.Errorf("got %q and %q", s.Token.Reveal(), s.Absent.Reveal())
	}
}
