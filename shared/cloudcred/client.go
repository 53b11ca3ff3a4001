package cloudcred

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// What a caller can do about a credential that it did not get.
var (
	// ErrNotFound: auth-service does not know the id; the request is wrong.
	ErrNotFound = errors.New("credential not found")
	// ErrForbidden: auth-service refuses this service; its operator must act.
	ErrForbidden = errors.New("auth-service refuses access")
	// ErrUnavailable: auth-service does not answer as it should; try later.
	ErrUnavailable = errors.New("auth-service is unavailable")
	// ErrUnsupported: the credential's kind cannot be used; take another one.
	ErrUnsupported = errors.New("credential kind is not supported")
	// ErrInvalid means that the stored credential cannot be used as it is; an
	// InvalidError says why. It must be stored anew.
	ErrInvalid = errors.New("credential is not valid")
)

const (
	attempts       = 3
	attemptTimeout = 5 * time.Second
	// firstPause is doubled from one attempt to the next; half of it is random,
	// so that services that failed together do not come back together.
	firstPause = 250 * time.Millisecond
	// maxAnswer is well above the longest session token.
	maxAnswer = 64 << 10
)

// Config is what NewClient needs.
type Config struct {
	BaseURL    string       // of auth-service, without /api/v1
	APIKeyFile string       // read for every call, so that the key can be rotated
	HTTPClient *http.Client // nil: one of its own
}

// Client asks auth-service.
type Client struct {
	base    *url.URL
	keyFile string
	http    http.Client
}

// NewClient checks the configuration; auth-service need not be up yet.
func NewClient(c Config) (*Client, error) {
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("auth-service: the base URL must be http(s)://host[:port][/path], without user, query and fragment")
	}
	client := &Client{base: base, keyFile: c.APIKeyFile}
	if c.HTTPClient != nil {
		client.http = *c.HTTPClient
	}
	// A redirect would carry the API key to wherever it points.
	client.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if _, err := client.key(); err != nil {
		return nil, err
	}
	return client, nil
}

// Resolve gets a credential, and for a role the access key that may assume it.
// Connection errors and 5xx answers are tried again for a few seconds, within ctx.
func (c *Client) Resolve(ctx context.Context, id string) (Credential, error) {
	credential, err := c.fetch(ctx, id)
	if err != nil || credential.AssumeRole == nil {
		return credential, err
	}
	role := credential.AssumeRole
	base, err := c.fetch(ctx, role.Base.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return Credential{}, &InvalidError{ID: id, Reason: fmt.Sprintf("its base credential %s is not in auth-service", role.Base.ID)}
	case err != nil:
		return Credential{}, fmt.Errorf("credential %s: its base: %w", id, err)
	case base.Kind != KindAccessKey:
		return Credential{}, &InvalidError{ID: id, Reason: fmt.Sprintf("its base credential %s is of kind %s and not %s: roles cannot be chained", base.ID, base.Kind, KindAccessKey)}
	}
	role.Base = base
	return credential, nil
}

// fetch gets what AWS takes under one id.
func (c *Client) fetch(ctx context.Context, id string) (Credential, error) {
	w, err := c.ask(ctx, id)
	if err != nil {
		return Credential{}, err
	}
	return w.credential()
}

// ask gets what auth-service has under one id.
func (c *Client) ask(ctx context.Context, id string) (wire, error) {
	if !idPattern.MatchString(id) {
		return wire{}, fmt.Errorf("credential: this is not the id of one: %w", ErrNotFound)
	}
	key, err := c.key()
	if err != nil {
		return wire{}, fmt.Errorf("credential %s: %w: %w", id, ErrUnavailable, err)
	}
	pause := firstPause
	for attempt := 1; ; attempt++ {
		status, body, err := c.get(ctx, id, key)
		switch {
		case err == nil && status < http.StatusInternalServerError:
			return answer(id, status, body)
		case ctx.Err() != nil:
			return wire{}, fmt.Errorf("credential %s: %w", id, ctx.Err())
		case attempt == attempts && err != nil:
			return wire{}, fmt.Errorf("credential %s: %w after %d attempts: %w; check that it runs and can be reached", id, ErrUnavailable, attempts, err)
		case attempt == attempts:
			return wire{}, fmt.Errorf("credential %s: %w: it answered %d %d times; see its log", id, ErrUnavailable, status, attempts)
		}
		//nolint:gosec // spreading load needs no cryptographic randomness
		if err := sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return wire{}, fmt.Errorf("credential %s: %w", id, err)
		}
		pause *= 2
	}
}

func (c *Client) get(ctx context.Context, id, key string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("api/v1/cloud-credentials", id).String(), nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-Api-Key", key)
	req.Header.Set("Accept", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }() // only read from
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	return res.StatusCode, body, err
}

// key reads the API key. The key is never part of an error.
func (c *Client) key() (string, error) {
	data, err := os.ReadFile(c.keyFile)
	if err != nil {
		return "", fmt.Errorf("API key for auth-service: %w", err)
	}
	key := strings.TrimSpace(string(data))
	if key == "" || len(key) > 4096 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("API key for auth-service: %s must hold one line of printable ASCII", c.keyFile)
	}
	return key, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
