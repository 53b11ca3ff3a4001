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
	if err := cloudUse.Refused(id, err); err != nil {
		return cloudcred.Credential{}, err
	}
	if ends := credential.ExpiresAt(); !ends.IsZero() && ends.Before(r.Now().Add(r.Timeout)) {
		return cloudcred.Credential{}, &CredentialError{ID: id, Reason: fmt.Sprintf(
			"a credential that lasts as long as a run may take, %s: this session ends at %s", r.Timeout, ends.UTC().Format(time.RFC3339))}
	}
	return credential, nil
}

// CredentialUse is what a kind of stored credentials is for, in words.
type CredentialUse struct {
	Name   string // such as "the Git credential"
	Taker  string // who takes them, such as "Git"
	Wanted string // what may be named, such as "a credential of kind ssh_key"
}

var cloudUse = CredentialUse{
	Name: "the credential", Taker: "AWS",
	Wanted: fmt.Sprintf("a credential of kind %s or %s: there is no use for another", cloudcred.KindAccessKey, cloudcred.KindAssumeRole),
}

// Refused says what an error of auth-service's client means: a *CredentialError if
// the stored credential cannot be used, any other if auth-service does not answer,
// nil for none.
func (u CredentialUse) Refused(id string, err error) error {
	stored, isInvalid := errors.AsType[*cloudcred.InvalidError](err)
	var reason string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cloudcred.ErrNotFound):
		reason = "a credential that auth-service knows: it knows none of that id"
	case errors.Is(err, cloudcred.ErrUnsupported):
		reason = u.Wanted
	case isInvalid:
		reason = fmt.Sprintf("a credential that %s could take: of the stored one, %s; store it anew in auth-service", u.Taker, stored.Reason)
	case errors.Is(err, cloudcred.ErrInvalid):
		reason = fmt.Sprintf("a credential that %s could take; store it anew in auth-service", u.Taker)
	default:
		return fmt.Errorf("resolve %s: %w", u.Name, err)
	}
	return &CredentialError{ID: id, Reason: reason}
}
