package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/sim/aws/keyring"
)

// MaxSkew is how far a client's clock may be off.
const MaxSkew = 15 * time.Minute

// Payload hashes that are not a hash.
const (
	unsignedPayload = "UNSIGNED-PAYLOAD"
	streamingPrefix = "STREAMING-"
)

// Keys finds the key that a request names.
type Keys interface {
	Find(id string) (keyring.Key, error)
}

// Verifier checks signatures against registered keys.
type Verifier struct {
	Keys Keys
	Now  func() time.Time
}

// Verify checks who signed r, whose body is given apart (r.Body is not read).
// The signature is returned whenever it could be read, also beside an error,
// so that a refusal can be recorded and answered in the service's own way.
func (v *Verifier) Verify(r *http.Request, body []byte) (Signature, keyring.Key, error) {
	sig, err := Parse(r)
	if err != nil {
		return Signature{}, keyring.Key{}, err
	}
	key, err := v.Keys.Find(sig.AccessKeyID)
	if err != nil {
		return sig, keyring.Key{}, ErrUnknownKey
	}
	if sig.SessionToken != key.SessionToken {
		return sig, keyring.Key{}, ErrBadToken
	}
	payload, err := payloadHash(r, sig, body)
	if err != nil {
		return sig, keyring.Key{}, err
	}
	if !hmac.Equal([]byte(expected(r, sig, payload, key.Secret)), []byte(sig.Value)) {
		return sig, keyring.Key{}, ErrMismatch
	}
	if err := checkHeaders(r, sig); err != nil {
		return sig, keyring.Key{}, err
	}
	// Only who holds the secret learns of expiry, so these come last.
	now := v.Now()
	if key.Expired(now) {
		return sig, keyring.Key{}, ErrExpiredToken
	}
	if err := checkTime(sig, now); err != nil {
		return sig, keyring.Key{}, err
	}
	return sig, key, nil
}

func checkTime(sig Signature, now time.Time) error {
	if sig.Time.Format("20060102") != sig.Date {
		return fmt.Errorf("date of the credential scope: %w", ErrMismatch)
	}
	if sig.Time.After(now.Add(MaxSkew)) {
		return ErrSkewed
	}
	if sig.Presigned {
		if now.After(sig.Time.Add(sig.Expires)) {
			return ErrExpiredURL
		}
		return nil
	}
	if sig.Time.Before(now.Add(-MaxSkew)) {
		return ErrSkewed
	}
	return nil
}

// payloadHash is the value that stands for the body in the canonical request.
func payloadHash(r *http.Request, sig Signature, body []byte) (string, error) {
	actual := sha256.Sum256(body)
	declared := r.Header.Get("X-Amz-Content-Sha256")
	if declared == "" && sig.Presigned {
		declared = r.URL.Query().Get("X-Amz-Content-Sha256")
		if declared == "" && sig.Service == "s3" {
			return unsignedPayload, nil
		}
	}
	switch {
	case declared == "":
		return hex.EncodeToString(actual[:]), nil
	case declared == unsignedPayload, strings.HasPrefix(declared, streamingPrefix):
		return declared, nil
	case declared != hex.EncodeToString(actual[:]):
		return "", ErrPayload
	}
	return declared, nil
}

// checkHeaders refuses S3 requests with an x-amz- header that nobody signed: it
// could have been added on the way. S3 alone insists on that.
func checkHeaders(r *http.Request, sig Signature) error {
	if sig.Service != "s3" {
		return nil
	}
	for name := range r.Header {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "x-amz-") && name != "x-amz-content-sha256" && !slices.Contains(sig.SignedHeaders, name) {
			return fmt.Errorf("%s: %w", name, ErrUnsignedHeader)
		}
	}
	return nil
}
