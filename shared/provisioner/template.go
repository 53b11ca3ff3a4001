package provisioner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

const (
	// maxTemplate is far above any script written by hand.
	maxTemplate     = 1 << 20
	templateTimeout = time.Minute
	maxRedirects    = 5
)

// templateSource reads the scripts of custom templates.
type templateSource struct {
	baseDir string // files are below it; empty means the working directory
	client  *http.Client
}

func newTemplateSource(baseDir string) *templateSource {
	return &templateSource{baseDir: baseDir, client: templateClient(&http.Transport{
		// No proxy: it, and not the check below, would decide what is reached.
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, ControlContext: publicOnly}).DialContext,
	})}
}

// templateClient follows redirects to https only.
func templateClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Timeout:   templateTimeout,
		Transport: transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch {
			case req.URL.Scheme != "https":
				return errors.New("redirected to what is not https")
			case len(via) > maxRedirects:
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			return nil
		},
	}
}

// load is the template's script, its checksum checked.
func (s *templateSource) load(ctx context.Context, t v1alpha1.CustomTemplate) ([]byte, error) {
	content, err := s.read(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("custom template %s: %w", t.Name, err)
	}
	if t.Checksum == "" {
		return content, nil
	}
	want, ok := strings.CutPrefix(strings.ToLower(t.Checksum), "sha256:")
	if !ok {
		return nil, fmt.Errorf("custom template %s: checksum is not sha256:…", t.Name)
	}
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); got != want {
		return nil, fmt.Errorf("custom template %s: sha256 is %s, not %s", t.Name, got, want)
	}
	return content, nil
}

func (s *templateSource) read(ctx context.Context, t v1alpha1.CustomTemplate) ([]byte, error) {
	switch {
	case t.Inline != "":
		return []byte(t.Inline), nil
	case t.File != "":
		return s.file(t.File)
	case t.URL != "":
		return s.fetch(ctx, t.URL)
	}
	return nil, errors.New("neither inline nor file nor url is set")
}

// file reads a file below the base directory. Neither .. nor a symbolic link
// leads out of it.
func (s *templateSource) file(name string) ([]byte, error) {
	base := s.baseDir
	if base == "" {
		base = "."
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, fmt.Errorf("open the base directory: %w", err)
	}
	defer root.Close()
	// Before opening: a pipe would be waited for.
	info, err := root.Stat(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	f, err := root.Open(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f)
}

func (s *templateSource) fetch(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if req.URL.Scheme != "https" {
		return nil, errors.New("url is not https")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: %s", req.URL.Redacted(), resp.Status)
	}
	return readAtMost(resp.Body)
}

func readAtMost(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxTemplate+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxTemplate {
		return nil, fmt.Errorf("larger than %d bytes", maxTemplate)
	}
	return content, nil
}

// publicOnly is asked after names are resolved, so a name that leads to a
// private address, now or on a second look, is of no use.
func publicOnly(_ context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := ap.Addr().Unmap(); !public(ip) {
		return fmt.Errorf("%s is not a public address", ip)
	}
	return nil
}

// notPublic are the networks of the IANA special purpose registries that
// netip's own predicates leave out, and those that embed IPv4 addresses.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // carrier-grade NAT
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), // benchmarks
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), // NAT64
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/32"), // Teredo
	netip.MustParsePrefix("2002::/16"), // 6to4
}

func public(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}
