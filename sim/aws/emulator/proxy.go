// Package emulator passes calls on to the AWS emulator behind the gateway, and
// mends those of its answers on which Terraform would stumble.
package emulator

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// Proxy is the handler for an emulator, which takes the service from the
// Authorization header as the gateway does and does not check signatures.
type Proxy struct {
	proxy     *httputil.ReverseProxy
	transport *http.Transport
}

// NewProxy returns a handler for the emulator at target.
func NewProxy(target *url.URL, log *slog.Logger) *Proxy {
	// The emulator closes idle connections when it likes; a call on a fresh one cannot meet that.
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	return &Proxy{
		transport: transport,
		proxy: &httputil.ReverseProxy{
			Transport: transport,
			Rewrite: func(pr *httputil.ProxyRequest) {
				pr.SetURL(target)
				pr.Out.Host = pr.In.Host
				// Answers that are read here must not be compressed.
				pr.Out.Header.Del("Accept-Encoding")
			},
			ModifyResponse: mend,
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
				log.WarnContext(r.Context(), "emulator did not answer", "error", err)
				// The body has been read; that a form came is enough to know the protocol.
				p := protocol.Of(keyring.CallerFrom(r.Context()).Service, r, []byte("Action="))
				protocol.WriteError(w, r, p, "", &protocol.Error{
					Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Message: "the emulator did not answer",
				})
			},
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
	}
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.proxy.ServeHTTP(w, r) }

// Close drops what is left of connections to the emulator.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }

// mend applies the mendings to an XML answer.
func mend(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK || resp.ContentLength == 0 {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the emulator's answer: %w", err)
	}
	_ = resp.Body.Close()
	for _, m := range mendings {
		if bytes.Contains(body, []byte(m.answer)) {
			body = m.apply(body, keyring.CallerFrom(resp.Request.Context()).Region)
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}
