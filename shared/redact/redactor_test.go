package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/kubeopera/platform/shared/redact"
)

// awkward has a byte for each kind of escaping.
const awkward = "wJalr+XUtn/FEMI \"K7\\MDENG'<b&c>\tñ€😀=Key%41"

func TestEncodingsOfASecretAreMasked(t *testing.T) {
	t.Parallel()
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[1 : len(b)-1])
	}
	tests := []struct {
		name string
		form string
	}{
		{"raw", awkward},
		{"JSON", quoted(awkward)},
		{"JSON in JSON", quoted(quoted(awkward))},
		{"Go", strings.Trim(fmt.Sprintf("%q", "_"+awkward), `"`)[1:]},
		{"HTML", html.EscapeString(awkward)},
		{"query", url.QueryEscape(awkward)},
		{"query in lower case", strings.ToLower(url.QueryEscape("aws+secret/key 01"))},
		{"path", url.PathEscape(awkward)},
		{"hexadecimal", hex.EncodeToString([]byte(awkward))},
		{"base64", base64.StdEncoding.EncodeToString([]byte(awkward))},
		{"base64 without padding", base64.RawStdEncoding.EncodeToString([]byte(awkward))},
		{"base64 for URLs", base64.URLEncoding.EncodeToString([]byte(awkward))},
		{"base64 for URLs without padding", base64.RawURLEncoding.EncodeToString([]byte(awkward))},
	}
	r := redact.New(awkward, "aws+secret/key 01")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := r.String("before " + tt.form + " after")
			if want := "before " + redact.Marker + " after"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestBase64OfLongerTextIsMasked(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-of-some-length"
	for before := range 4 {
		for after := range 4 {
			text := strings.Repeat("<", before) + secret + strings.Repeat(">", after)
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
				got := redact.String(enc.EncodeToString([]byte(text)), secret)
				// At most one character at each end also holds bits of the secret.
				if !strings.Contains(got, redact.Marker) || len(got) > len(redact.Marker)+2*8 {
					t.Errorf("%d before, %d after: got %q", before, after, got)
				}
			}
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	pem := "-----BEGIN KEY-----\n" + strings.Repeat("MIIEpAIBAAKCAQEA", 4) + "\nshort\n-----END KEY-----\n"
	tests := []struct {
		name    string
		text    string
		secrets []string
		want    string
	}{
		{"no secrets", "nothing to hide", nil, "nothing to hide"},
		{"short secrets are ignored", "a short one", []string{"short", "", "1234567"}, "a short one"},
		{"twice", "secret-one and secret-one", []string{"secret-one"}, "[redacted] and [redacted]"},
		{"longest first", "secret-one-and-more.", []string{"secret-one", "secret-one-and-more"}, "[redacted]."},
		{"overlap", "<aaaabbbbccccdddd>", []string{"aaaabbbbcccc", "bbbbccccdddd"}, "<[redacted]>"},
		{"one inside another", "<xx-inner-secret-xx>", []string{"inner-secret", "xx-inner-secret-xx"}, "<[redacted]>"},
		{"inner one after a false start", "xx-inner-secret-yy", []string{"inner-secret", "xx-inner-secret-xx"}, "xx-[redacted]-yy"},
		{"touching", "secret-onesecret-two", []string{"secret-one", "secret-two"}, "[redacted]"},
		{"cut at the end", "token: secret-o", []string{"secret-one"}, "token: [redacted]"},
		{"a few bytes of one at the end", "token: secret", []string{"secret-one"}, "token: secret"},
		{"surrounding white space is no part of it", "key=secret-one;", []string{" secret-one\n"}, "key=[redacted];"},
		{"line of a longer secret", "| " + strings.Repeat("MIIEpAIBAAKCAQEA", 4) + "\n| short", []string{pem}, "| [redacted]\n| short"},
		{"part of the marker", "[redacted] redacted", []string{"redacted"}, "[redacted] redacted"},
		{"not UTF-8", "\xff\xfe\x00secret\xff\xfeone\xff", []string{"secret\xff\xfeone"}, "\xff\xfe\x00[redacted]\xff"},
		{"empty", "", []string{"secret-one"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := redact.String(tt.text, tt.secrets...); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAddedSecretsAreMaskedFromThenOn(t *testing.T) {
	t.Parallel()
	r := redact.New("secret-one")
	var wg sync.WaitGroup
	wg.Go(func() { r.Add("secret-two") })
	wg.Go(func() { _ = r.String("secret-one") })
	wg.Wait()
	r.Add("secret-two") // again
	const want = "[redacted], [redacted] and secret-three"
	if got := r.String("secret-one, secret-two and secret-three"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriterHoldsBackOnlyWhatMayBeASecret(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := redact.NewWriter(&out, "secret-one")
	steps := []struct{ write, want string }{
		{"plain text\n", "plain text\n"},
		{"a sec", "a "},
		{"ond thing\nsecr", "second thing\n"},
		{"et-one", "[redacted]"},
		{".\nsec", ".\n"},
	}
	for _, s := range steps {
		if _, err := io.WriteString(w, s.write); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != s.want {
			t.Errorf("after %q: got %q, want %q", s.write, got, s.want)
		}
		out.Reset()
	}
	if err := w.Flush(); err != nil || out.Len() > 0 {
		t.Errorf("flush let go of %q, error %v", out.String(), err)
	}
	if err := w.Close(); err != nil || out.String() != "sec" {
		t.Errorf("close let go of %q, error %v; want %q", out.String(), err, "sec")
	}
}

func TestWriterPassesOnTheErrorBelow(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	pr, pw := io.Pipe()
	pr.CloseWithError(broken)
	w := redact.NewWriter(pw, "secret-one")
	for range 2 {
		if _, err := io.WriteString(w, "text"); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
	}
	if err := w.Close(); !errors.Is(err, broken) {
		t.Errorf("close: got %v, want %v", err, broken)
	}
}

func TestWriterIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := redact.NewWriter(&out, "secret-one")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				_, _ = io.WriteString(w, "secret-one\n")
			}
		})
	}
	wg.Wait()
	if want := strings.Repeat("[redacted]\n", 800); out.String() != want {
		t.Error("concurrent writes were mixed up")
	}
}

// TestAnySplitMasksAsTheModelDoes draws texts and secrets from few letters, so
// that secrets overlap, nest and nearly match, and compares with a model that
// sees the whole text.
func TestAnySplitMasksAsTheModelDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Letters outside the hexadecimal digits and with no escapes: of all
		// forms only the raw one can occur in such short texts.
		secrets := rapid.SliceOfN(rapid.StringMatching(`[xyz]{6,14}`), 0, 4).Draw(t, "secrets")
		text := rapid.StringMatching(`([xyz]|-){0,80}`).Draw(t, "text")
		if len(secrets) > 0 && rapid.Bool().Draw(t, "plant") {
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			text = text[:at] + rapid.SampledFrom(secrets).Draw(t, "planted") + text[at:]
		}
		want := model(text, secrets)

		var out bytes.Buffer
		w := redact.NewWriter(&out, secrets...)
		for rest := text; rest != ""; {
			n := rapid.IntRange(0, len(rest)).Draw(t, "chunk")
			if n == 0 {
				n = 1
			}
			if m, err := io.WriteString(w, rest[:n]); err != nil || m != n {
				t.Fatalf("wrote %d of %d: %v", m, n, err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != want {
			t.Fatalf("secrets %q in %q\n got %q\nwant %q", secrets, text, got, want)
		}
		for _, s := range secrets {
			if len(s) >= redact.MinLength && strings.Contains(out.String(), s) {
				t.Fatalf("%q is in the output %q", s, out.String())
			}
		}
	})
}

// model masks by trying every secret at every place.
func model(text string, secrets []string) string {
	masked := make([]bool, len(text))
	hide := func(from, n int) {
		for i := from; i < from+n; i++ {
			masked[i] = true
		}
	}
	for _, s := range secrets {
		if len(s) < redact.MinLength {
			continue
		}
		for i := range text {
			if strings.HasPrefix(text[i:], s) || i <= len(text)-redact.MinLength && strings.HasPrefix(s, text[i:]) {
				hide(i, min(len(s), len(text)-i))
			}
		}
	}
	var b strings.Builder
	for i := range text {
		if !masked[i] {
			b.WriteByte(text[i])
		} else if i == 0 || !masked[i-1] {
			b.WriteString(redact.Marker)
		}
	}
	return b.String()
}

func FuzzWriter(f *testing.F) {
	f.Add("the secret-one is out", "secret-one", uint8(7))
	f.Add("\xff\x00"+awkward, awkward, uint8(1))
	f.Add("a\nb", strings.Repeat("line of a key\n", 9), uint8(0))
	f.Fuzz(func(t *testing.T, text, secret string, chunk uint8) {
		whole := redact.String(text, secret)
		var out bytes.Buffer
		w := redact.NewWriter(&out, secret)
		for b := []byte(text); len(b) > 0; {
			n := min(len(b), int(chunk)+1)
			if _, err := w.Write(b[:n]); err != nil {
				t.Fatal(err)
			}
			b = b[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != whole {
			t.Errorf("in chunks of %d: got %q, want %q", int(chunk)+1, out.String(), whole)
		}
		// A secret made of the marker and its surroundings cannot be promised.
		if s := strings.TrimSpace(secret); len(s) >= redact.MinLength && !strings.ContainsAny(s, redact.Marker) && strings.Contains(whole, s) {
			t.Errorf("%q is in the output %q", s, whole)
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	line := []byte(`{"@level":"info","@message":"aws_vpc.main: Creating...","type":"apply_start"}` + "\n")
	w := redact.NewWriter(io.Discard, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AKIAIOSFODNN7EXAMPLE")
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if _, err := w.Write(line); err != nil {
			b.Fatal(err)
		}
	}
}
