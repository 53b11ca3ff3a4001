package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func line(name, key string) string {
	digest := sha256.Sum256([]byte(key))
	return name + ":" + hex.EncodeToString(digest[:]) + "\n"
}

// keyFile is a key file whose time the test turns.
type keyFile struct {
	keys *Keys
	path string
	log  *bytes.Buffer
	now  time.Time
}

func openKeyFile(tb testing.TB, content string) *keyFile {
	tb.Helper()
	f := &keyFile{path: filepath.Join(tb.TempDir(), "keys"), log: new(bytes.Buffer), now: time.Now()}
	f.write(tb, content)
	var err error
	if f.keys, err = OpenKeys(f.path, slog.New(slog.NewTextHandler(f.log, nil))); err != nil {
		tb.Fatal(err)
	}
	f.keys.now = func() time.Time { return f.now }
	f.keys.checked = f.now
	return f
}

func (f *keyFile) write(tb testing.TB, content string) {
	tb.Helper()
	if err := os.WriteFile(f.path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func (f *keyFile) want(tb testing.TB, key, name string) {
	tb.Helper()
	got, ok := f.keys.Lookup(tb.Context(), key)
	if got != name || ok != (name != "") {
		tb.Errorf("key %q: got %q, %t; want %q", key, got, ok, name)
	}
}

func TestKeysAreRotated(t *testing.T) {
	t.Parallel()
	f := openKeyFile(t, "# keys\n\n"+line("controller", "old-key")+line("operators", "other"))
	f.want(t, "old-key", "controller")
	f.want(t, "other", "operators")
	f.want(t, "new-key", "")
	f.want(t, "", "")
	f.want(t, "# keys", "")

	f.write(t, line("controller", "old-key")+line("controller", "new-key"))
	f.want(t, "new-key", "") // looked at less than a second ago
	f.now = f.now.Add(time.Second)
	f.want(t, "new-key", "controller")
	f.want(t, "old-key", "controller")
	f.want(t, "other", "")
}

func TestKeyFileIsReplacedUnseenByTimeAndSize(t *testing.T) {
	t.Parallel()
	f := openKeyFile(t, line("controller", "old-key"))
	past := f.now.Add(-time.Hour)
	if err := os.Chtimes(f.path, past, past); err != nil {
		t.Fatal(err)
	}
	f.now = f.now.Add(time.Second)
	f.want(t, "old-key", "controller") // read again, now with the time of the past

	// As mounted Secrets are updated: another file under the same name.
	other := f.path + ".new"
	if err := os.WriteFile(other, []byte(line("controller", "new-key")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, past, past); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, f.path); err != nil {
		t.Fatal(err)
	}
	f.now = f.now.Add(time.Second)
	f.want(t, "new-key", "controller")
}

func TestBrokenKeyFileLeavesTheOldKeys(t *testing.T) {
	t.Parallel()
	f := openKeyFile(t, line("controller", "old-key"))
	for _, broken := range []string{"", "controller:my-secret-key\n", line("controller", "new-key") + "x\n"} {
		f.write(t, broken)
		f.log.Reset()
		for range 3 {
			f.now = f.now.Add(time.Second)
			f.want(t, "old-key", "controller")
			f.want(t, "new-key", "")
		}
		if n := strings.Count(f.log.String(), "level=ERROR"); n != 1 || strings.Contains(f.log.String(), "my-secret-key") {
			t.Errorf("%q: %d errors in the log: %s", broken, n, f.log)
		}
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	f.now = f.now.Add(time.Second)
	f.want(t, "old-key", "controller")

	f.write(t, line("controller", "new-key"))
	f.now = f.now.Add(time.Second)
	f.want(t, "new-key", "controller")
	f.want(t, "old-key", "")
	if !strings.Contains(f.log.String(), "API keys read again") {
		t.Errorf("the recovery is not in the log: %s", f.log)
	}
}

func TestOpenKeysRefuses(t *testing.T) {
	t.Parallel()
	const secret = "my-secret-key"
	tests := []struct{ name, content, want string }{
		{"empty file", "", "no key"},
		{"only comments", "# a\n\n", "no key"},
		{"no digest", "controller\n", "line 1: want name:sha256"},
		{"no name", line("", "k"), "line 1: want name:sha256"},
		{"name with a space", line("a b", "k"), "line 1: want name:sha256"},
		{"key in place of its digest", "#\ncontroller:" + secret + "\n", "line 2: the digest of a key is 64 hexadecimal digits"},
		{"digest too short", "controller:abcd\n", "line 1: the digest of a key is 64"},
		{"digest too long", strings.TrimSpace(line("controller", "k")) + "00\n", "line 1: the digest of a key is 64"},
		{"digest of nothing", line("controller", ""), "line 1: this is the digest of an empty key"},
		{"line without end", strings.Repeat("x", 1<<17), "token too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "keys")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := OpenKeys(path, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := OpenKeys(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestKeysAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	f := openKeyFile(t, line("controller", "old-key"))
	var mu sync.Mutex
	f.keys.now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		f.now = f.now.Add(time.Second)
		return f.now
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 50 {
				if i == 0 {
					if err := os.WriteFile(f.path, []byte(line("controller", "old-key")), 0o600); err != nil {
						t.Error(err)
					}
				}
				f.want(t, "old-key", "controller")
			}
		})
	}
	wg.Wait()
}

func FuzzParseKeys(f *testing.F) {
	f.Add(line("controller", "k"))
	f.Add("# x\nname:zz\n")
	f.Fuzz(func(t *testing.T, content string) {
		keys, err := parseKeys([]byte(content))
		if (err == nil) == (len(keys) == 0) {
			t.Errorf("%d keys and error %v", len(keys), err)
		}
		for _, k := range keys {
			if !validName(k.name) || !strings.Contains(strings.ToLower(content), fmt.Sprintf("%x", k.digest)) {
				t.Errorf("key %q %x is not in the file", k.name, k.digest)
			}
		}
	})
}
