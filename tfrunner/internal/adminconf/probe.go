package adminconf

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/kubeconfig"
)

// probeTimeout bounds a probe: an address inside a VPC gives no answer at all.
const probeTimeout = 10 * time.Second

// UntrustedError is an API server whose certificate is not of the cluster's CA,
// or not for its address.
type UntrustedError struct{ Err error }

// Error says what is wrong with the certificate.
func (e *UntrustedError) Error() string { return "its certificate does not fit: " + e.Err.Error() }

// Unwrap is TLS's own error.
func (e *UntrustedError) Unwrap() error { return e.Err }

// Probe asks the API server of a kubeconfig whether it is ready, with the
// kubeconfig's own CA and user. That it cannot be reached from here, which is an
// error like any other, is in order for a private one.
func Probe(ctx context.Context, data []byte) error {
	info, err := kubeconfig.Check(data)
	if err != nil {
		return err
	}
	config, err := kubeconfig.Parse(data)
	if err != nil {
		return err
	}
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(info.CA)
	settings := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if len(user.ClientKeyData) > 0 {
		pair, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData)
		if err != nil {
			return errors.New("the client certificate and its key are no pair")
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %s", probeTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, info.Server+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", info.Server, err)
	}
	if user.Token != "" {
		request.Header.Set("Authorization", "Bearer "+user.Token)
	}
	client := &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings, DisableKeepAlives: true},
		// An API server sends nobody elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("ask %s: %w", info.Server, cause)
		}
		if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			return &UntrustedError{Err: untrusted.Err}
		}
		return fmt.Errorf("ask %s: %w", info.Server, err)
	}
	defer func() { _ = answer.Body.Close() }() // only read from
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64))
	if err != nil || answer.StatusCode != http.StatusOK || strings.TrimSpace(string(body)) != "ok" {
		return fmt.Errorf("%s is not ready: it answers /readyz with status %d", info.Server, answer.StatusCode)
	}
	return nil
}
