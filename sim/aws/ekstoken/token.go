package ekstoken

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/sigv4"
)

const (
	prefix        = "k8s-aws-v1."
	clusterHeader = "x-k8s-aws-id"
	// maxTokenLen and lifetime are those of AWS's authenticator, which ignores
	// X-Amz-Expires but for its upper bound.
	maxTokenLen = 4096
	lifetime    = 15 * time.Minute
)

// ErrToken says that a token is not acceptable.
var ErrToken = errors.New("token is not acceptable")

// stsHost matches the endpoints of STS, global and regional.
var stsHost = regexp.MustCompile(`^sts(-fips)?(\.[a-z0-9-]+)?\.amazonaws\.com$`)

// allowedParameters are all that a token's URL may have, in lower case.
var allowedParameters = []string{
	"action", "version", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires", "x-amz-security-token",
	"x-amz-signature", "x-amz-signedheaders", "x-amz-user-agent", "x-amz-content-sha256",
}

// Verifier decides whom a token stands for.
type Verifier struct {
	Keys sigv4.Keys
	// ExtraHosts are accepted besides AWS's: a client that has the gateway as its
	// endpoint presigns URLs of the gateway.
	ExtraHosts []string
	Now        func() time.Time
}

// decode reads a token's URL and checks its form.
func (v *Verifier) decode(token string) (*url.URL, error) {
	if len(token) > maxTokenLen {
		return nil, fmt.Errorf("%w: longer than %d characters", ErrToken, maxTokenLen)
	}
	encoded, ok := strings.CutPrefix(token, prefix)
	if !ok {
		return nil, fmt.Errorf("%w: does not begin with %s", ErrToken, prefix)
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("%w: not base64", ErrToken)
	}
	u, err := url.Parse(string(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: no URL", ErrToken) // the URL is a secret: its text goes nowhere
	}
	if err := v.checkAddress(u); err != nil {
		return nil, err
	}
	return u, checkQuery(u)
}

func (v *Verifier) checkAddress(u *url.URL) error {
	switch {
	case slices.Contains(v.ExtraHosts, u.Host) && (u.Scheme == "http" || u.Scheme == "https"):
	case u.Scheme != "https":
		return fmt.Errorf("%w: scheme is not https", ErrToken)
	case !stsHost.MatchString(u.Host):
		return fmt.Errorf("%w: host is not STS", ErrToken)
	}
	if u.Path != "/" && u.Path != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("%w: URL has a path, a fragment or a user", ErrToken)
	}
	return nil
}

func checkQuery(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: query cannot be read", ErrToken)
	}
	seen := map[string]bool{}
	for name, values := range query {
		lower := strings.ToLower(name)
		if !slices.Contains(allowedParameters, lower) || len(values) != 1 || seen[lower] {
			return fmt.Errorf("%w: parameter %q is not allowed or repeated", ErrToken, name)
		}
		seen[lower] = true
	}
	if query.Get("Action") != "GetCallerIdentity" {
		return fmt.Errorf("%w: action is not GetCallerIdentity", ErrToken)
	}
	if !slices.Contains(strings.Split(query.Get("X-Amz-SignedHeaders"), ";"), clusterHeader) {
		return fmt.Errorf("%w: header %s is not signed", ErrToken, clusterHeader)
	}
	if expires, err := strconv.Atoi(query.Get("X-Amz-Expires")); err != nil || expires < 0 || expires > int(lifetime/time.Second) {
		return fmt.Errorf("%w: X-Amz-Expires is not 0 to %d", ErrToken, int(lifetime/time.Second))
	}
	return nil
}

// Verify says whose key signed the token for one of the clusters, and which.
func (v *Verifier) Verify(token string, clusters []string) (keyring.Key, string, error) {
	u, err := v.decode(token)
	if err != nil {
		return keyring.Key{}, "", err
	}
	err = fmt.Errorf("%w: there is no cluster", ErrToken)
	for _, cluster := range clusters {
		var key keyring.Key
		if key, err = v.verifyFor(u, cluster); err == nil {
			return key, cluster, nil
		}
		if !errors.Is(err, sigv4.ErrMismatch) {
			break // no other name would help
		}
	}
	return keyring.Key{}, "", err
}

func (v *Verifier) verifyFor(u *url.URL, cluster string) (keyring.Key, error) {
	r := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{}}
	r.Header.Set(clusterHeader, cluster)
	// X-Amz-Expires does not bound a token's life, so time is checked below, not by sigv4.
	sig, err := sigv4.Parse(r)
	if err != nil {
		return keyring.Key{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	verifier := sigv4.Verifier{Keys: v.Keys, Now: func() time.Time { return sig.Time }}
	_, key, err := verifier.Verify(r, nil)
	if err != nil {
		return keyring.Key{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	now := v.Now()
	switch {
	case key.Expired(now):
		return keyring.Key{}, fmt.Errorf("%w: %w", ErrToken, sigv4.ErrExpiredToken)
	case now.After(sig.Time.Add(lifetime)):
		return keyring.Key{}, fmt.Errorf("%w: %w", ErrToken, sigv4.ErrExpiredURL)
	case sig.Time.After(now.Add(sigv4.MaxSkew)):
		return keyring.Key{}, fmt.Errorf("%w: %w", ErrToken, sigv4.ErrSkewed)
	}
	return key, nil
}
