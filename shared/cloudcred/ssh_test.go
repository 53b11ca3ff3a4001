package cloudcred_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/cloudcred"
)

// TestResolveSSHNamesWhatIsWrong, and never the secret.
func TestResolveSSHNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	const id = "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"
	const key = `-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n`
	for answer, want := range map[string]error{
		`{"private_key":"canary"}`: cloudcred.ErrInvalid,
		`{"private_key":"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n"}`: cloudcred.ErrInvalid, // no passphrase
		`{"private_key":"` + key + `","passphrase":"canary\ncanary"}`:                                                          cloudcred.ErrInvalid,
		`{"private_key":"` + key + `","certificate":"ssh-rsa canary"}`:                                                         cloudcred.ErrInvalid,
		`{"private_key":"` + key + `","certificate":"ssh-ed25519-cert-v01@openssh.com"}`:                                       cloudcred.ErrInvalid,
		`{"private_key":7}`: cloudcred.ErrUnavailable,
		`null`:              cloudcred.ErrUnavailable,
	} {
		client, _ := newClient(t, &server{answers: []http.HandlerFunc{respond(http.StatusOK, `{"id":"`+id+`","kind":"ssh_key","ssh_key":`+answer+`}`)}})
		if _, err := client.ResolveSSH(t.Context(), id); !errors.Is(err, want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %v", answer, err, want)
		}
	}
}
