package keyring_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kubeopera/platform/sim/aws/keyring"
)

func TestRegisterRefusesWhatCannotSign(t *testing.T) {
	t.Parallel()
	good := keyring.Key{ID: "AKIAKEYRINGTEST00001", Secret: "s", PrincipalARN: "arn:aws:iam::123456789012:user/a/b"}
	tests := []struct {
		name   string
		change func(*keyring.Key)
		ok     bool
	}{
		{name: "good", change: func(*keyring.Key) {}, ok: true},
		{name: "session", change: func(k *keyring.Key) { k.PrincipalARN = "arn:aws:sts::123456789012:assumed-role/r/s" }, ok: true},
		{name: "root", change: func(k *keyring.Key) { k.PrincipalARN = "arn:aws:iam::123456789012:root" }, ok: true},
		{name: "short id", change: func(k *keyring.Key) { k.ID = "AKIA" }},
		{name: "slash in the id", change: func(k *keyring.Key) { k.ID = "AKIA/KEYRING/TEST/01" }},
		{name: "no secret", change: func(k *keyring.Key) { k.Secret = "" }},
		{name: "no principal", change: func(k *keyring.Key) { k.PrincipalARN = "platform" }},
	}
	for _, tt := range tests {
		k := good
		tt.change(&k)
		ring := keyring.New()
		if err := ring.Register(k); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestLifeOfAKey(t *testing.T) {
	t.Parallel()
	const id = "AKIAKEYRINGTEST00001"
	ring := keyring.New()
	if err := ring.Expire(id, time.Now()); !errors.Is(err, keyring.ErrUnknown) {
		t.Errorf("expire an unknown key: %v", err)
	}
	if err := ring.Register(keyring.Key{ID: id, Secret: "s", PrincipalARN: "arn:aws:iam::123456789012:user/a"}); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	k, err := ring.Find(id)
	if err != nil || k.Expired(at) {
		t.Errorf("new key: %+v, %v", k, err)
	}
	if err := ring.Expire(id, at); err != nil {
		t.Fatal(err)
	}
	if k, err = ring.Find(id); err != nil || !k.Expired(at) || k.Expired(at.Add(-time.Second)) {
		t.Errorf("expired key: %+v, %v", k, err)
	}
	ring.Revoke(id)
	if _, err := ring.Find(id); !errors.Is(err, keyring.ErrUnknown) {
		t.Errorf("revoked key: %v", err)
	}
}

func TestExpireSessions(t *testing.T) {
	t.Parallel()
	ring := keyring.New()
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for id, k := range map[string]keyring.Key{
		"ASIAKEYRINGTEST00001": {SessionToken: "t", PrincipalARN: "arn:aws:sts::123456789012:assumed-role/ci/a"},
		"ASIAKEYRINGTEST00002": {SessionToken: "t", PrincipalARN: "arn:aws:sts::123456789012:assumed-role/ci/b", ExpiresAt: at.Add(time.Hour)},
		"ASIAKEYRINGTEST00003": {SessionToken: "t", PrincipalARN: "arn:aws:sts::123456789012:assumed-role/ci/c", ExpiresAt: at.Add(-time.Hour)},
		"ASIAKEYRINGTEST00004": {SessionToken: "t", PrincipalARN: "arn:aws:sts::123456789012:assumed-role/cd/a"},
		"AKIAKEYRINGTEST00001": {PrincipalARN: "arn:aws:iam::123456789012:user/ci"},
		"AKIAKEYRINGTEST00002": {PrincipalARN: "arn:aws:iam::123456789012:role/ci"},
	} {
		k.ID, k.Secret = id, "s"
		if err := ring.Register(k); err != nil {
			t.Fatal(err)
		}
	}
	if n := ring.ExpireSessions("arn:aws:iam::123456789012:role/teams/ci", at); n != 2 {
		t.Errorf("%d sessions were ended, want 2", n)
	}
	for id, want := range map[string]bool{
		"ASIAKEYRINGTEST00001": true, "ASIAKEYRINGTEST00002": true, "ASIAKEYRINGTEST00004": false, "AKIAKEYRINGTEST00001": false, "AKIAKEYRINGTEST00002": false,
	} {
		if k, err := ring.Find(id); err != nil || k.Expired(at) != want {
			t.Errorf("%s: %v, expired %t", id, err, k.Expired(at))
		}
	}
	if k, err := ring.Find("ASIAKEYRINGTEST00003"); err != nil || !k.ExpiresAt.Equal(at.Add(-time.Hour)) {
		t.Errorf("a session that had ended: %v, %s", err, k.ExpiresAt)
	}
}

func TestCanonicalARN(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"arn:aws:sts::123456789012:assumed-role/admin/me":    "arn:aws:iam::123456789012:role/admin",
		"arn:aws-cn:sts::123456789012:assumed-role/admin/me": "arn:aws-cn:iam::123456789012:role/admin",
		"arn:aws:iam::123456789012:user/a":                   "arn:aws:iam::123456789012:user/a",
		"arn:aws:sts::123456789012:federated-user/a":         "arn:aws:sts::123456789012:federated-user/a",
		"nonsense": "nonsense",
	} {
		if got := keyring.CanonicalARN(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
