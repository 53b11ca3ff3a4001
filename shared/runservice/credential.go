package runservice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubeopera/platform/shared/cloudcred"
)

// Credentials resolves the cloud credentials that auth-service keeps.
type Credentials interface {
	Resolve(ctx context.Context, id string) (cloudcred.Credential, error)
}

// Resolver resolves the cloud credentials of runs.
type Resolver struct {
	Credentials Credentials
	// Timeout is how long a run may take; a credential that ends sooner is refused.
	Timeout time.Duration
	Now     func() time.Time
}

// Resolve asks auth-service for a credential. One that cannot be used is a
// CredentialError; that auth-service does not answer is not.
func (r Resolver) Resolve(ctx context.Context, id string) (cloudcred.Credential, error) {
	credential, err := r.Credentials.Resolve(ctx, id)
	refuse := func(format string, args ...any) (cloudcred.Credential, error) {
		return cloudcred.Credential{}, &CredentialError{ID: id, Reason: fmt.Sprintf(format, args...)}
	}
	stored, isInvalid := errors.AsType[*cloudcred.InvalidError](err)
	switch {
	case errors.Is(err, cloudcred.ErrNotFound):
		return refuse("a credential that auth-service knows: it knows none of that id")
	case errors.Is(err, cloudcred.ErrUnsupported):
		return refuse("a credential of kind %s or %s: there is no use for another", cloudcred.KindAccessKey, cloudcred.KindAssumeRole)
	case isInvalid:
		return refuse("a credential that AWS could take: of the stored one, %s; store it anew in auth-service", stored.Reason)
	case errors.Is(err, cloudcred.ErrInvalid):
		return refuse("a credential that AWS could take; store it anew in auth-service")
	case err != nil:
		return cloudcred.Credential{}, fmt.Errorf("resolve the credential: %w", err)
	}
	if ends := credential.ExpiresAt(); !ends.IsZero() && ends.Before(r.Now().Add(r.Timeout)) {
		return refuse("a credential that lasts as long as a run may take, %s: this session ends at %s", r.Timeout, ends.UTC().Format(time.RFC3339))
	}
	return credential, nil
}
