package seal

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Certificate is the public half of the key that a sealed-secrets controller
// opens secrets with.
type Certificate struct {
	// Fingerprint is the SHA-256 of the certificate in hexadecimal.
	Fingerprint string
	// NotBefore and NotAfter are when it is valid.
	NotBefore, NotAfter time.Time

	key *rsa.PublicKey
}

// ErrNoCertificate is for an answer that has no certificate in it: a controller
// that is not ready, or a proxy's page.
var ErrNoCertificate = errors.New("no certificate")

// minKeyBits is the smallest RSA key that is sealed for; controllers make 4096.
const minKeyBits = 2048

// ParseCertificate reads what a controller serves as /v1/cert.pem: one
// certificate in PEM, with an RSA key, valid at now. Trust comes from where it was
// read; it is self-signed.
func ParseCertificate(data []byte, now time.Time) (*Certificate, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%w: the answer is empty", ErrNoCertificate)
	}
	var der [][]byte
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		switch block.Type {
		case "CERTIFICATE":
			der = append(der, block.Bytes)
		default:
			return nil, fmt.Errorf("a %s where a certificate was expected", block.Type)
		}
	}
	switch len(der) {
	case 0:
		return nil, fmt.Errorf("%w in PEM", ErrNoCertificate)
	case 1:
	default:
		return nil, fmt.Errorf("%d certificates where one was expected: give the one of the controller's newest key", len(der))
	}
	cert, err := x509.ParseCertificate(der[0])
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	key, ok := cert.PublicKey.(*rsa.PublicKey)
	switch {
	case !ok:
		return nil, fmt.Errorf("the certificate's key is %T: sealed-secrets needs RSA", cert.PublicKey)
	case key.N.BitLen() < minKeyBits:
		return nil, fmt.Errorf("the certificate's key has %d bits, less than %d", key.N.BitLen(), minKeyBits)
	case now.After(cert.NotAfter):
		return nil, fmt.Errorf("the certificate expired on %s: renew the controller's sealing key", cert.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(cert.NotBefore):
		return nil, fmt.Errorf("the certificate is valid from %s on: one of the two clocks is wrong", cert.NotBefore.UTC().Format(time.RFC3339))
	}
	sum := sha256.Sum256(cert.Raw)
	return &Certificate{
		Fingerprint: hex.EncodeToString(sum[:]),
		NotBefore:   cert.NotBefore,
		NotAfter:    cert.NotAfter,
		key:         key,
	}, nil
}
