package cloudcred

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
)

// Kind is the form of a credential.
type Kind string

// The kinds that auth-service stores.
const (
	// KindAccessKey is an AWS access key, with a session token or without.
	KindAccessKey Kind = "access_key"
	// KindAssumeRole is a role that another credential may assume. It cannot be
	// used yet: resolving one gives ErrUnsupported.
	KindAssumeRole Kind = "assume_role"
)

// Secret prints as redact.Marker; Reveal gives the value.
type Secret = redact.Secret

// Credential is what auth-service knows under an id.
type Credential struct {
	ID        string
	Name      string
	Kind      Kind
	AccessKey *AccessKey // for KindAccessKey
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

// Files is an AWS shared config file and a shared credentials file with the
// profile runcontract.CredentialProfile, by the names of a credential Secret's
// keys. Bytes that could begin another line or a comment are left out: Validate
// refuses a credential that has them.
func (c Credential) Files(region string) map[string][]byte {
	var key AccessKey
	if c.AccessKey != nil {
		key = *c.AccessKey
	}
	keys := "[" + runcontract.CredentialProfile + "]\n" +
		setting("aws_access_key_id", key.ID, keyIDBytes) +
		setting("aws_secret_access_key", key.Secret.Reveal(), secretBytes) +
		setting("aws_session_token", key.SessionToken.Reveal(), secretBytes)
	config := "[profile " + runcontract.CredentialProfile + "]\n" +
		setting("region", region, regionBytes)
	return map[string][]byte{
		runcontract.CredentialConfigFile: []byte(config),
		runcontract.CredentialKeysFile:   []byte(keys),
	}
}

// setting is a line of an INI file, empty for an empty value.
func setting(name, value, allowed string) string {
	value = strings.Map(func(r rune) rune {
		if strings.ContainsRune(allowed, r) {
			return r
		}
		return -1
	}, value)
	if value == "" {
		return ""
	}
	return name + " = " + value + "\n"
}
