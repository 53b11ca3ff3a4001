package leak_test

import (
	"compress/gzip"
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubeopera/platform/e2e/leak"
)

const secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYcanary"

func TestAPlantedSecretIsFound(t *testing.T) {
	scanner, err := leak.New(map[string]string{"the key": secret})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, data string }{
		{"as it is", "level=info key=" + secret + " msg=x"},
		{"URL-encoded", "https://example.invalid/?k=" + url.QueryEscape(secret)},
		{"in base64", base64.StdEncoding.EncodeToString([]byte(secret))},
		{"in base64 of a text, at offset 1", base64.StdEncoding.EncodeToString([]byte("a" + secret + "b"))},
		{"in gzip", zipped("a log with " + secret)},
		{"in base64 of a text, at offset 2", base64.StdEncoding.EncodeToString([]byte("ab" + secret + "cd"))},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := scanner.Scan("a log", []byte(test.data)); err == nil || !strings.Contains(err.Error(), "the key") {
				t.Errorf("got %v, want an error that names the key", err)
			}
		})
	}
	if err := scanner.Scan("a log", []byte("nothing to see: "+secret[:20])); err != nil {
		t.Errorf("a half secret: %v", err)
	}
}

func zipped(text string) string {
	var out strings.Builder
	z := gzip.NewWriter(&out)
	_, _ = z.Write([]byte(text)) // into memory
	_ = z.Close()
	return out.String()
}

func TestScanDirFindsAPlantedFileAndSkips(t *testing.T) {
	scanner, err := leak.New(map[string]string{"the key": secret})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string]string{"clean.log": "x", "etcd/wal": secret, "logs/leaky.log": "x" + secret} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := scanner.ScanDir(dir, func(path string) bool { return path == "etcd" })
	if err == nil || !strings.Contains(err.Error(), "leaky.log") || strings.Contains(err.Error(), "wal") {
		t.Errorf("got %v, want an error about leaky.log only", err)
	}
	if files != 2 {
		t.Errorf("scanned %d files, want 2", files)
	}
}
