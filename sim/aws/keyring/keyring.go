// Package keyring holds the access keys that the simulated AWS account knows,
// and whom each one speaks for.
//
// A key that is not registered, or was revoked, is unknown: AWS answers both
// the same way. A key that has expired stays known, since AWS then answers
// differently. Who signed a request travels to the service fakes as a Caller
// in the request's context.
package keyring

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

// ErrUnknown says that a key was never registered, or was revoked.
var ErrUnknown = errors.New("access key is not registered")

// Key is an access key with the principal that it belongs to.
type Key struct {
	ID           string
	Secret       string
	SessionToken string    // set for temporary credentials only
	PrincipalARN string    // IAM user or role, or an assumed-role session
	ExpiresAt    time.Time // zero: never
}

// Expired says whether the key has ended by now.
func (k Key) Expired(now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}

// Ring is a set of keys. Its methods may be called concurrently.
type Ring struct {
	mu   sync.RWMutex
	keys map[string]Key
}

// New returns an empty ring.
func New() *Ring { return &Ring{keys: map[string]Key{}} }

var (
	// AWS key ids have 16 to 128 word characters; a slash would break the credential scope.
	idPattern  = regexp.MustCompile(`^\w{16,128}$`)
	arnPattern = regexp.MustCompile(`^arn:aws[\w-]*:(iam|sts)::\d{12}:(root|user/.+|role/.+|assumed-role/[^/]+/[^/]+)$`)
)

// Register adds a key, or replaces the one with the same id.
func (r *Ring) Register(k Key) error {
	if !idPattern.MatchString(k.ID) {
		return fmt.Errorf("register key: id %q is not 16 to 128 word characters", k.ID)
	}
	if k.Secret == "" {
		return fmt.Errorf("register key %s: no secret", k.ID)
	}
	if !arnPattern.MatchString(k.PrincipalARN) {
		return fmt.Errorf("register key %s: %q is no principal's ARN", k.ID, k.PrincipalARN)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[k.ID] = k
	return nil
}

// Revoke forgets a key. Revoking an unknown key does nothing.
func (r *Ring) Revoke(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keys, id)
}

// Expire lets a key end at the given time.
func (r *Ring) Expire(id string, at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.keys[id]
	if !ok {
		return fmt.Errorf("expire key %s: %w", id, ErrUnknown)
	}
	k.ExpiresAt = at
	r.keys[id] = k
	return nil
}

// ExpireSessions lets all sessions of a role that have not ended yet end at the
// given time, and says how many there were.
func (r *Ring) ExpireSessions(roleARN string, at time.Time) int {
	prefix, path, _ := strings.Cut(roleARN, ":role/")
	// A session's ARN lacks the role's path.
	role := prefix + ":role/" + path[strings.LastIndexByte(path, '/')+1:]
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for id, k := range r.keys {
		if k.SessionToken != "" && !k.Expired(at) && CanonicalARN(k.PrincipalARN) == role && CanonicalARN(k.PrincipalARN) != k.PrincipalARN {
			k.ExpiresAt = at
			r.keys[id] = k
			n++
		}
	}
	return n
}

// Find returns the key with that id, expired or not.
func (r *Ring) Find(id string) (Key, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	k, ok := r.keys[id]
	if !ok {
		return Key{}, ErrUnknown
	}
	return k, nil
}

// Caller is who signed a request, and for where.
type Caller struct {
	AccessKeyID  string
	PrincipalARN string
	Region       string
	Service      string // from the credential scope, e.g. "s3"
}

type callerKey struct{}

// WithCaller returns a context that carries c.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns who signed the request of ctx; the zero Caller when nobody did.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// CanonicalARN turns the ARN of an assumed-role session into that of its role,
// as far as a session ARN tells it (the role's path is not in there), and
// returns any other ARN unchanged.
func CanonicalARN(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[2] != "sts" {
		return arn
	}
	name, ok := strings.CutPrefix(parts[5], "assumed-role/")
	if !ok {
		return arn
	}
	role, _, _ := strings.Cut(name, "/")
	return fmt.Sprintf("%s:%s:iam::%s:role/%s", parts[0], parts[1], parts[4], role)
}
