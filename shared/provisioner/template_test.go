package provisioner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

func TestTemplateFilesStayBelowTheBaseDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	write := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "secret"), "secret")
	write(filepath.Join(base, "a.sh"), "a")
	write(filepath.Join(base, "sub", "b.sh"), "b")
	write(filepath.Join(base, "big"), strings.Repeat("x", maxTemplate+1))
	for link, to := range map[string]string{"inside": "sub/b.sh", "outside": "../secret", "absolute": filepath.Join(dir, "secret"), "dir": ".."} {
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ file, want string }{
		{"a.sh", "a"},
		{"sub/b.sh", "b"},
		{"sub/../a.sh", "a"},
		{"inside", "b"},
		{"outside", ""},
		{"absolute", ""},
		{"dir/secret", ""},
		{"../secret", ""},
		{"sub/../../secret", ""},
		{filepath.Join(dir, "secret"), ""},
		{"big", ""},
		{"sub", ""},
		{"missing", ""},
	} {
		got, err := newTemplateSource(base).load(t.Context(), v1alpha1.CustomTemplate{Name: "t", File: test.file})
		if (err == nil) != (test.want != "") || string(got) != test.want {
			t.Errorf("file %q: %.20q, %v; want %q", test.file, got, err, test.want)
		}
	}
}

func TestTemplateChecksum(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("true\n"))
	digest := hex.EncodeToString(sum[:])
	for _, test := range []struct {
		checksum string
		ok       bool
	}{
		{"", true},
		{"sha256:" + digest, true},
		{"sha256:" + strings.ToUpper(digest), true},
		{"SHA256:" + digest, true},
		{"sha256:" + strings.Repeat("0", 64), false},
		{digest, false},
	} {
		_, err := newTemplateSource("").load(t.Context(), v1alpha1.CustomTemplate{Name: "t", Inline: "true\n", Checksum: test.checksum})
		if (err == nil) != test.ok {
			t.Errorf("checksum %q: %v, want ok %t", test.checksum, err, test.ok)
		}
	}
}

func TestTemplateFetch(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("plain")) }))
	t.Cleanup(plain.Close)
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), maxTemplate+1)) })
	mux.Handle("/here", http.RedirectHandler("/ok", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.Handle("/down", http.RedirectHandler(plain.URL, http.StatusFound))
	source := &templateSource{client: templateClient(server.Client().Transport)}
	for _, test := range []struct{ url, want, wrong string }{
		{server.URL + "/ok", "ok", ""},
		{server.URL + "/here", "ok", ""},
		{server.URL + "/missing", "", "404"},
		{server.URL + "/big", "", "larger"},
		{server.URL + "/loop", "", "redirects"},
		{server.URL + "/down", "", "not https"},
		{plain.URL, "", "not https"},
	} {
		got, err := source.load(t.Context(), v1alpha1.CustomTemplate{Name: "t", URL: test.url})
		if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) || string(got) != test.want {
			t.Errorf("%s: %.20q, %v; want %q, %q", test.url, got, err, test.want, test.wrong)
		}
	}
	// The source that is really used does not even connect to it.
	if _, err := newTemplateSource("").load(t.Context(), v1alpha1.CustomTemplate{Name: "t", URL: server.URL + "/ok"}); err == nil || !strings.Contains(err.Error(), "not a public address") {
		t.Errorf("private address: %v", err)
	}
}

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"93.184.215.14": true, "2606:2800:21f::1": true,
		"127.0.0.1": false, "::1": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false,
		"fe80::1": false, "fd00::1": false, "0.0.0.0": false, "::": false, "100.64.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "198.18.0.1": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("public(%s) = %t, want %t", address, got, want)
		}
	}
	if err := publicOnly(t.Context(), "tcp", "[::ffff:127.0.0.1]:443", nil); err == nil {
		t.Error("an IPv4 address in IPv6 form passed")
	}
}
