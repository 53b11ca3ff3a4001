package cloudcred

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/redact"
)

// Kind is the form of a credential.
type Kind string

// The kinds that auth-service stores.
const (
	// KindAccessKey is an AWS access key, with a session token or without.
	KindAccessKey Kind = "access_key"
	// KindAssumeRole is an IAM role that an access key may assume. Its sessions
	// are renewed for as long as the key is valid.
	KindAssumeRole Kind = "assume_role"
)

// Secret prints as redact.Marker; Reveal gives the value.
type Secret = redact.Secret

// Credential is what auth-service knows under an id.
type Credential struct {
	ID         string
	Name       string
	Kind       Kind
	AccessKey  *AccessKey  // for KindAccessKey
	AssumeRole *AssumeRole // for KindAssumeRole
}

// ExpiresAt is when the credential ends for good: a session's end, for a role
// that of its base, since the role's own sessions are renewed until then. Zero
// if it does not end, or nobody knows when.
func (c Credential) ExpiresAt() time.Time {
	switch {
	case c.AccessKey != nil:
		return c.AccessKey.ExpiresAt
	case c.AssumeRole != nil:
		return c.AssumeRole.Base.ExpiresAt()
	}
	return time.Time{}
}

// AccessKey is an AWS access key. A session token makes it a session, which
// ends at ExpiresAt.
type AccessKey struct {
	ID           string
	Secret       Secret
	SessionToken Secret    // empty for a long-lived key
	ExpiresAt    time.Time // zero if it does not end, or nobody knows when
}

// Lengths in bytes that no AWS credential reaches.
const (
	maxKeyID        = 128
	maxSecret       = 256
	maxSessionToken = 16 << 10
)

const (
	lettersAndDigits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	keyIDBytes       = lettersAndDigits + "_"
	secretBytes      = lettersAndDigits + "/+=_-."
	regionBytes      = "abcdefghijklmnopqrstuvwxyz0123456789-"
)

// Validate says what makes a key unfit for AWS's files and headers. It names the
// field only.
func (k AccessKey) Validate() error {
	var errs []error
	check := func(field, value, allowed string, limit int) {
		if len(value) > limit || strings.Trim(value, allowed) != "" {
			errs = append(errs, fmt.Errorf("%s is longer than %d bytes or holds other bytes than an AWS credential has", field, limit))
		}
	}
	check("access_key_id", k.ID, keyIDBytes, maxKeyID)
	check("secret_access_key", k.Secret.Reveal(), secretBytes, maxSecret)
	check("session_token", k.SessionToken.Reveal(), secretBytes, maxSessionToken)
	if k.ID == "" || k.Secret == "" {
		errs = append(errs, errors.New("access_key_id and secret_access_key are required"))
	}
	return errors.Join(errs...)
}
