package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kubeopera/platform/shared/api"
)

// BasePath is where the operations of a service are mounted.
const BasePath = "/api/v1"

// Config is what New needs. All but Description, Ready, DigestKey and Problems
// is required.
type Config struct {
	Title       string
	Version     string // of the API, not of the binary
	Description string // CommonMark, for the OpenAPI document
	Keys        *Keys
	Log         *slog.Logger
	// Ready gives what /ready shows of a service that can do its work, or says why
	// it cannot. Anybody may ask: the text of its error is shown.
	Ready func(context.Context) (map[string]string, error)
	// Registry gets the metrics of the API and is what /metrics shows.
	Registry *prometheus.Registry
	// DigestKey is the secret of RequestDigest, the same in all replicas; nil: no
	// operation is Repeatable.
	DigestKey []byte
	// Problems maps a domain error to its answer, nil for one it does not know.
	Problems func(error) *api.Problem
}

// API is the HTTP side of a service. Operations are registered on Huma before
// it serves its first request.
type API struct {
	config  Config
	router  *chi.Mux
	huma    huma.API
	metrics *metrics

	readiness readiness
}

// New is an API without operations.
func New(c Config) (*API, error) {
	switch {
	case c.Title == "" || c.Version == "":
		return nil, errors.New("http api: title and version are required")
	case c.Keys == nil:
		return nil, errors.New("http api: no API keys")
	case c.Log == nil || c.Registry == nil:
		return nil, errors.New("http api: log and registry are required")
	}
	installHumaGlobals()
	m, err := newMetrics(c.Registry)
	if err != nil {
		return nil, err
	}
	a := &API{config: c, router: chi.NewRouter(), metrics: m}
	a.router.Use(a.begin, a.observe, a.recover, middleware.GetHead)
	a.router.NotFound(a.notFound)
	a.router.MethodNotAllowed(a.methodNotAllowed)

	a.router.Get("/health", a.health)
	a.router.Get("/ready", a.ready)
	a.router.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(c.Registry, promhttp.HandlerOpts{}))
	a.router.Get("/openapi.json", a.openAPI)
	a.router.Get("/docs", page("index.html", "text/html; charset=utf-8"))
	a.router.Get("/docs/docs.js", page("docs.js", "text/javascript; charset=utf-8"))
	a.router.Get("/docs/docs.css", page("docs.css", "text/css; charset=utf-8"))

	a.router.Route(BasePath, func(r chi.Router) {
		r.Use(a.authenticate, a.checkQuery)
		a.huma = humachi.New(r, humaConfig(c))
	})
	a.huma.UseMiddleware(a.readBody)
	return a, nil
}

// Huma is where operations are registered, with paths relative to BasePath.
func (a *API) Huma() huma.API { return a.huma }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }

// humaConfig leaves out what Huma's default adds: $schema links in bodies, and
// documentation pages that load scripts from a CDN.
func humaConfig(c Config) huma.Config {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	return huma.Config{
		OpenAPI:                      openAPI(c, registry),
		Formats:                      formats(),
		DefaultFormat:                jsonType,
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{finishProblem},
	}
}
