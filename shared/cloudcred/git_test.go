package cloudcred_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/cloudcred"
)

func TestCheckPrivateKey(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	good := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	openSSH := func(cipher string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: []byte("openssh-key-v1\x00\x00\x00\x00" + string(rune(len(cipher))) + cipher + "rest")}))
	}
	for text, wrong := range map[string]string{
		good: "", strings.ReplaceAll(good, "\n", "\r\n"): "", openSSH("none"): "",
		openSSH("aes256-ctr"):                         "passphrase",
		strings.ReplaceAll(good, "PRIVATE", "PUBLIC"): "PEM",
		"":                                    "PEM",
		"-----BEGIN OPENSSH PRIVATE KEY-----": "PEM",
		good + "x":                            "PEM",
		"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMHcCAQEE\n-----END RSA PRIVATE KEY-----\n": "passphrase",
	} {
		if err := cloudcred.CheckPrivateKey(text); wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%q: %v, want %q", text, err, wrong)
		}
	}
}

func TestCheckKnownHosts(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString([]byte("key"))
	for text, want := range map[string]bool{
		"": true, "# nothing\n\n": true, "git.example.com ssh-ed25519 " + key + "\n[h]:22 ssh-rsa " + key + " comment": true,
		"@cert-authority *.example.com ssh-ed25519 " + key: true,
		"git.example.com": false, "@revoked": false, "h ssh-rsa \x00": false, strings.Repeat("h ssh-rsa k\n", 10000): false,
	} {
		if err := cloudcred.CheckKnownHosts(text); (err == nil) != want {
			t.Errorf("%.40q: %v, want it taken: %t", text, err, want)
		}
	}
}

// TestResolveGitNamesWhatIsWrong, and never the secret.
func TestResolveGitNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	const id = "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"
	for answer, want := range map[string]error{
		`{"id":"` + id + `","kind":"git_token","git_token":{"token":"canary canary"}}`:           cloudcred.ErrInvalid,
		`{"id":"` + id + `","kind":"git_token","git_token":{"token":"canary","username":"a:b"}}`: cloudcred.ErrInvalid,
		`{"id":"` + id + `","kind":"git_ssh_key","git_ssh_key":{"private_key":"canary"}}`:        cloudcred.ErrInvalid,
		`{"id":"` + id + `","kind":"git_token"}`:                                                 cloudcred.ErrUnavailable,
		`{"id":"` + id + `","kind":"password","password":"canary"}`:                              cloudcred.ErrUnsupported,
	} {
		client, _ := newClient(t, &server{answers: []http.HandlerFunc{respond(http.StatusOK, answer)}})
		if _, err := client.ResolveGit(t.Context(), id); !errors.Is(err, want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %v", answer, err, want)
		}
	}
}
