package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
	"github.com/kubeopera/platform/sim/aws/sigv4"
)

// maxBody bounds what is read into memory: a signature covers the whole body.
const maxBody = 256 << 20

// Config is what a gateway needs.
type Config struct {
	Keys     *keyring.Ring           // required
	Services map[string]http.Handler // by the credential scope's service name
	Fallback http.Handler            // required: all other services
	Admin    http.Handler            // nil: none; further paths below /_sim/
	Now      func() time.Time        // nil: time.Now
	Log      *slog.Logger            // nil: discarded
}

// operationNamer is implemented by services whose operations show in method
// and path only.
type operationNamer interface {
	Operation(r *http.Request) string
}

// resourceNamer is implemented by services whose paths do not say what a
// request is about.
type resourceNamer interface {
	Resource(body []byte) string
}

// refusalObserver is implemented by services that want to know of requests whose
// signature was not accepted.
type refusalObserver interface {
	Refused(r *http.Request, err error)
}

// channelPath is the beginning of the paths of Session Manager's data channels.
// Requests are for them whatever their signature says, for they are websockets.
const (
	channelPath    = "/v1/data-channel/"
	channelService = "ssmmessages"
)

// Gateway is the account's HTTP handler.
type Gateway struct {
	cfg      Config
	verifier sigv4.Verifier
	faults   faults.Set
	calls    callLog
	admin    http.Handler
}

// New returns a gateway.
func New(cfg Config) (*Gateway, error) {
	if cfg.Keys == nil || cfg.Fallback == nil {
		return nil, errors.New("gateway: keys and fallback are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{cfg: cfg, verifier: sigv4.Verifier{Keys: cfg.Keys, Now: cfg.Now}}
	g.admin = g.adminRoutes()
	return g, nil
}

// Faults is what goes wrong at this gateway.
func (g *Gateway) Faults() *faults.Set { return &g.faults }

// ServeHTTP answers one call.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, adminPrefix) {
		g.admin.ServeHTTP(w, r)
		return
	}
	c := &call{w: &statusWriter{ResponseWriter: w}, started: g.cfg.Now(), requestID: newRequestID()}
	if err := g.read(c, r); err != nil {
		protocol.WriteError(c.w, r, protocol.S3, c.requestID,
			&protocol.Error{Status: http.StatusBadRequest, Code: "IncompleteBody", Message: err.Error()})
		return
	}
	// Recorded also when a fault aborts the handler.
	defer func() { g.record(r.Context(), c) }()

	sig, key, err := g.verifier.Verify(r, c.body)
	c.identify(r, sig, g.cfg.Services)
	if err != nil {
		if o, ok := c.handler.(refusalObserver); ok {
			o.Refused(r, err)
		}
		protocol.WriteError(c.w, r, c.protocol, c.requestID, protocol.Refusal(c.protocol, err))
		return
	}
	ctx := keyring.WithCaller(r.Context(), keyring.Caller{
		AccessKeyID: key.ID, PrincipalARN: key.PrincipalARN, Region: sig.Region, Service: sig.Service,
	})
	g.dispatch(c, r.WithContext(ctx))
	if c.w.status == 0 && r.Context().Err() == nil {
		c.w.status = http.StatusOK // a handler that writes nothing says so
	}
}

// call is a request on its way through the gateway.
type call struct {
	w         *statusWriter
	body      []byte
	protocol  protocol.Protocol
	requestID string
	started   time.Time
	entry     Call
	resource  string
	handler   http.Handler // nil: the fallback
}

func (g *Gateway) read(c *call, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.w, r.Body, maxBody))
	if err != nil {
		return fmt.Errorf("read body: %w", err)
	}
	c.body = body
	r.Body = io.NopCloser(bytes.NewReader(body))
	// A chunked upload has a known length from here on.
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	return nil
}

func (c *call) identify(r *http.Request, sig sigv4.Signature, services map[string]http.Handler) {
	service := sig.Service
	if strings.HasPrefix(r.URL.Path, channelPath) && service != "s3" {
		service = channelService
	}
	c.handler = services[service]
	c.protocol = protocol.Of(service, r, c.body)
	if service == "" && c.protocol == protocol.RESTJSON {
		c.protocol = protocol.S3 // unsigned and of no other shape: most likely an anonymous read
	}
	c.entry = Call{
		Time: c.started, RequestID: c.requestID,
		Service: service, Region: sig.Region, AccessKeyID: sig.AccessKeyID,
		Method: r.Method, Path: r.URL.Path,
	}
	c.resource = r.URL.Path
	if namer, ok := c.handler.(resourceNamer); ok {
		c.resource = namer.Resource(c.body)
	}
	if namer, ok := c.handler.(operationNamer); ok {
		c.entry.Operation = namer.Operation(r)
	} else {
		c.entry.Operation = protocol.Operation(c.protocol, r, c.body)
	}
}

// dispatch lets the faults act, then the service.
func (g *Gateway) dispatch(c *call, r *http.Request) {
	w := http.ResponseWriter(c.w)
	for _, f := range g.faults.Match(faults.Call{
		Service: c.entry.Service, Operation: c.entry.Operation, AccessKeyID: c.entry.AccessKeyID, Resource: c.resource,
	}) {
		c.entry.Fault = f.ID
		switch f.Kind {
		case faults.KindDelay:
			if !sleep(r.Context(), time.Duration(f.Delay)) {
				return
			}
		case faults.KindError:
			protocol.WriteError(w, r, c.protocol, c.requestID, f.Error)
			return
		case faults.KindDrop:
			panic(http.ErrAbortHandler)
		case faults.KindLostAnswer:
			lost := &lostWriter{header: http.Header{}}
			g.serve(c, lost, r)
			c.entry.Status = lost.status
			panic(http.ErrAbortHandler)
		}
	}
	g.serve(c, w, r)
}

func (g *Gateway) serve(c *call, w http.ResponseWriter, r *http.Request) {
	if c.handler != nil {
		w.Header().Set("X-Amzn-Requestid", c.requestID)
		c.handler.ServeHTTP(w, r)
		return
	}
	g.cfg.Fallback.ServeHTTP(w, r)
}

func (g *Gateway) record(ctx context.Context, c *call) {
	if c.entry.Status == 0 {
		c.entry.Status = c.w.status
	}
	c.entry.ErrorCode = c.w.Header().Get(protocol.ErrorCodeHeader)
	c.entry.Duration = g.cfg.Now().Sub(c.started)
	g.calls.add(c.entry)
	g.cfg.Log.DebugContext(ctx, "aws call", "service", c.entry.Service, "operation", c.entry.Operation,
		"region", c.entry.Region, "path", c.entry.Path, "status", c.entry.Status, "fault", c.entry.Fault)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func newRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// statusWriter remembers the status that was written.
type statusWriter struct {
	http.ResponseWriter

	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// lostWriter takes an answer that nobody will see.
type lostWriter struct {
	header http.Header
	status int
}

func (w *lostWriter) Header() http.Header { return w.header }

func (w *lostWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *lostWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(p), nil
}
