package client

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config is what every client needs.
type Config struct {
	// BaseURL of the service, without /api/v1.
	BaseURL string
	APIKey  string
	// HTTPClient is for own transports, such as one with a CA; nil for a default.
	// Its Timeout must be zero: it would cut log streams.
	HTTPClient *http.Client
}

// service is one HTTP service.
type service struct {
	base *url.URL
	http http.Client
	// authorize adds the API key, which is kept nowhere else: a struct that is
	// printed by mistake does not show what a function has closed over.
	authorize func(*http.Request)
}

func newService(c Config) (*service, error) {
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("client: the base URL must be http(s)://host[:port][/path], without user, query and fragment")
	}
	if c.APIKey == "" || strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("client: the API key must be printable ASCII without spaces")
	}
	s := &service{base: base, authorize: func(r *http.Request) { r.Header.Set("X-Api-Key", c.APIKey) }}
	if c.HTTPClient != nil {
		s.http = *c.HTTPClient
	} else {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = 90 * time.Second // above any long poll
		s.http.Transport = t
	}
	if s.http.Timeout != 0 {
		return nil, errors.New("client: the HTTP client has a timeout, which would cut log streams; use contexts")
	}
	// A redirect would carry the API key to wherever it points.
	s.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}
