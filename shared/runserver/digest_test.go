package runserver

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestRequestDigestKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	auth, own := write("auth", "auth-key\n"), write("own", "a-secret-of-its-own")
	key := func(c Config) []byte {
		got, err := requestDigestKey(c)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	fallback := key(Config{AuthServiceAPIKeyFile: auth})
	if !bytes.Equal(fallback, key(Config{AuthServiceAPIKeyFile: write("replica", "auth-key")})) || bytes.Contains(fallback, []byte("auth-key")) {
		t.Error("two replicas of one secret have different keys, or the key is the secret")
	}
	if bytes.Equal(fallback, key(Config{AuthServiceAPIKeyFile: auth, RequestDigestKeyFile: own})) {
		t.Error("a secret of its own makes no difference")
	}
	for name, c := range map[string]Config{
		"too short": {AuthServiceAPIKeyFile: auth, RequestDigestKeyFile: write("short", "short\n")},
		"empty":     {AuthServiceAPIKeyFile: write("empty", "\n")},
		"not there": {AuthServiceAPIKeyFile: filepath.Join(dir, "none")},
	} {
		if _, err := requestDigestKey(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
