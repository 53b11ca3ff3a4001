package chartrepository_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/gitops/chartrepository"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryHostIsARepository(t *testing.T) {
	repositories, err := chartrepository.Start(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := repositories.Close(); err != nil {
			t.Error(err)
		}
	}()
	proxy, err := url.Parse(repositories.ProxyURL())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(repositories.CA())
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	repositories.Answer("broken.example.org", http.StatusInternalServerError)

	tests := []struct {
		name, url string
		want      int
	}{
		{"a host has an index", "https://charts.example.org/stable/index.yaml", http.StatusOK},
		{"there is nothing else", "https://charts.example.org/stable/chart-1.0.0.tgz", http.StatusNotFound},
		{"a repository that has moved", "https://bitnami-labs.github.io/sealed-secrets/index.yaml", http.StatusNotFound},
		{"a host that was told so fails", "https://broken.example.org/index.yaml", http.StatusInternalServerError},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != test.want {
				t.Errorf("status is %d, want %d", response.StatusCode, test.want)
			}
			if test.want == http.StatusOK && !strings.Contains(string(body), "apiVersion: v1") {
				t.Errorf("the index is %q", body)
			}
		})
	}
	if got := repositories.Asked("broken.example.org"); got != 1 {
		t.Errorf("the index was asked for %d times, want 1", got)
	}
}
