package platform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	digest := file("digest", strings.Repeat("x", 32)+"\n")
	got, err := Files{Token: file("token", "t0ken\n"), DigestSecret: digest}.Secrets()
	if err != nil || got.Token.Reveal() != "t0ken" || len(got.DigestSecret) != 32 || got.SSHKey != "" {
		t.Errorf("%+v, %v", got, err)
	}
	file("token", "rotated\n")
	if got, err := (Files{Token: filepath.Join(dir, "token")}).Secrets(); err != nil || got.Token.Reveal() != "rotated" {
		t.Errorf("a token that was rotated is not seen: %v", err)
	}
	for name, f := range map[string]Files{
		"a token of two words":     {Token: file("words", "canary canary")},
		"a key that is none":       {SSHKey: file("key", "canary")},
		"a short secret":           {DigestSecret: file("short", "canary")},
		"a file that is not there": {SigningKey: filepath.Join(dir, "none")},
	} {
		if _, err := f.Secrets(); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v, want one without the content", name, err)
		}
	}
}
