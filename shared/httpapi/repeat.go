package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Repeatable is the header of an operation that starts something: with it, a
// client that got no answer can ask again without starting it twice. Embed it in
// the input of the operation.
type Repeatable struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" pattern:"^(\"[ -~]+\"|[!#-~][ -~]*)$" example:"6f1d5c1e-7c1b-4a53-9d3e-0f5f3f6b2a10" doc:"The same key with the same request gives the run that the first one started; with another request it is refused. Keys are the caller's own"`
}

// Key is the key without the quotes that make it a string of RFC 9651; empty: none.
func (r Repeatable) Key() string {
	if key, quoted := strings.CutPrefix(r.IdempotencyKey, `"`); quoted {
		return strings.TrimSuffix(key, `"`)
	}
	return r.IdempotencyKey
}

// RequestDigest is what a repetition of a request is known by: a digest of its
// method, path and body, keyed with Config.DigestKey. Bodies are compared as they
// were understood: neither spaces nor the order of fields count.
func RequestDigest(ctx context.Context, body any) ([]byte, error) {
	req := requestFrom(ctx)
	if req == nil || len(req.api.config.DigestKey) == 0 {
		return nil, errors.New("request digest: outside of a request, or no key for it is configured")
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("request digest: %w", err)
	}
	mac := hmac.New(sha256.New, req.api.config.DigestKey)
	for _, part := range []string{req.method, req.path, string(text)} {
		// Lengths keep parts apart. A hash takes all that is written to it.
		_, _ = mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = mac.Write([]byte(part))
	}
	return mac.Sum(nil), nil
}
