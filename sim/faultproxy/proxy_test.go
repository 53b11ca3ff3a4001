package faultproxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFaultHappensOnceOnItsSideOfTheServer(t *testing.T) {
	tests := []struct {
		name       string
		when       faultproxy.When
		status     int
		wantStatus int
		wantServed int
	}{
		{"before, with an answer, the server sees nothing", faultproxy.Before, 503, 503, 0},
		{"before, without one, the request goes on", faultproxy.Before, 0, 200, 1},
		{"after, the server has done it and the answer is lost", faultproxy.After, 500, 502, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			served := 0
			upstream := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
			t.Cleanup(upstream.Close)
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: upstream.Certificate().Raw})
			proxy, err := faultproxy.Start(t.Context(), upstream.URL, ca, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = proxy.Close() })
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(proxy.CA())
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
			t.Cleanup(transport.CloseIdleConnections)
			client := &http.Client{Transport: transport}
			do := func(method string) int {
				t.Helper()
				request, err := http.NewRequestWithContext(t.Context(), method, proxy.URL()+"/api/v1/secrets", nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				return response.StatusCode
			}

			happened := 0
			proxy.Add(faultproxy.Fault{
				Method: http.MethodPost, Path: regexp.MustCompile(`/secrets$`), When: test.when,
				Do: func(context.Context) int { happened++; return test.status },
			})
			if got := do(http.MethodGet); got != 200 || happened != 0 {
				t.Fatalf("a request that does not match got %d, fault happened %d times", got, happened)
			}
			served = 0
			if got := do(http.MethodPost); got != test.wantStatus || served != test.wantServed || happened != 1 {
				t.Errorf("got status %d, served %d, happened %d; want %d, %d, 1", got, served, happened, test.wantStatus, test.wantServed)
			}
			if got := do(http.MethodPost); got != 200 || happened != 1 {
				t.Errorf("the second request got %d, fault happened %d times", got, happened)
			}
			if left := proxy.Clear(); left != 0 {
				t.Errorf("%d faults left", left)
			}
		})
	}
}
