package sshagent_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/kubeopera/platform/scaffoldrunner/internal/sshagent"
	"github.com/kubeopera/platform/shared/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ed25519Key(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(t *testing.T, block *pem.Block, err error) redact.Secret {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return redact.Secret(pem.EncodeToMemory(block))
}

func TestAgent_signs_and_leaves_nothing(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaBlock, rsaErr := ssh.MarshalPrivateKey(rsaKey, "")
	edBlock, edErr := ssh.MarshalPrivateKey(ed25519Key(t), "")
	for name, key := range map[string]redact.Secret{"rsa": encode(t, rsaBlock, rsaErr), "ed25519": encode(t, edBlock, edErr)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := sshagent.Start(key)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := new(net.Dialer).DialContext(t.Context(), "unix", a.Socket)
			if err != nil {
				t.Fatal(err)
			}
			client := agent.NewClient(conn)
			keys, err := client.List()
			if err != nil || len(keys) != 1 {
				t.Fatalf("keys %v, %v", keys, err)
			}
			public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(a.PublicKey))
			if err != nil {
				t.Fatal(err)
			}
			signature, err := client.Sign(public, []byte("text"))
			if err != nil || public.Verify([]byte("text"), signature) != nil {
				t.Errorf("signature %v, %v", signature, err)
			}
			// The client is still connected.
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			_ = conn.Close()
			if _, err := os.Stat(filepath.Dir(a.Socket)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder is left: %v", err)
			}
		})
	}
}

func TestStart_refuses_keys_that_nobody_can_use(t *testing.T) {
	t.Parallel()
	block, err := ssh.MarshalPrivateKeyWithPassphrase(ed25519Key(t), "", []byte("phrase"))
	if _, err := sshagent.Start(encode(t, block, err)); !errors.Is(err, sshagent.ErrPassphrase) {
		t.Errorf("error %v", err)
	}
	if _, err := sshagent.Start("canary"); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("error %v", err)
	}
}

func TestStart_where_temporary_folders_have_long_names(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	block, err := ssh.MarshalPrivateKey(ed25519Key(t), "")
	a, err := sshagent.Start(encode(t, block, err))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
