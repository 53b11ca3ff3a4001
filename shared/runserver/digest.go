package runserver

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
)

// minDigestSecret is what a secret of its own must have at least, in bytes.
const minDigestSecret = 16

// requestDigestKey is the key of the digests by which repeated requests are known.
// All replicas have it and the database has not, so that who sees only that
// cannot find a request by trying.
func requestDigestKey(cfg Config) ([]byte, error) {
	file, least := cfg.RequestDigestKeyFile, minDigestSecret
	if file == "" {
		file, least = cfg.AuthServiceAPIKeyFile, 1
	}
	data, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("key of request digests: %w", err)
	}
	secret := strings.TrimSpace(string(data))
	if len(secret) < least {
		return nil, fmt.Errorf("key of request digests: %s must hold at least %d bytes", file, least)
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "kubeopera request digest", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("key of request digests: %w", err)
	}
	return key, nil
}
