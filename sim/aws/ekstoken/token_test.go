package ekstoken_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubeopera/platform/sim/aws/ekstoken"
)

func TestVerifyAcceptsTokens(t *testing.T) {
	t.Parallel()
	const query = "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60"
	tests := []struct {
		name  string
		token spec
		now   time.Time
		id    string
	}{
		{name: "regional", id: keyID},
		{name: "global", token: spec{url: "https://sts.amazonaws.com" + query}, id: keyID},
		{name: "the gateway's address", token: spec{url: "http://127.0.0.1:4566" + query}, id: keyID},
		{name: "the second cluster", token: spec{cluster: "other"}, id: keyID},
		{name: "a session", token: spec{id: sessionID, session: "token"}, id: sessionID},
		{name: "older than it says", now: signedAt.Add(14 * time.Minute), id: keyID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := tt.now
			if now.IsZero() {
				now = signedAt.Add(time.Second)
			}
			key, cluster, err := verifier(t, now).Verify(tt.token.token(t), []string{"c", "other"})
			if err != nil {
				t.Fatal(err)
			}
			want := tt.token.cluster
			if want == "" {
				want = "c"
			}
			if key.ID != tt.id || cluster != want {
				t.Errorf("got %s for %s", key.ID, cluster)
			}
		})
	}
}

func TestVerifyRefusesTokens(t *testing.T) {
	t.Parallel()
	good := spec{}.token(t)
	const query = "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60"
	tests := []struct {
		name, token string
		now         time.Time
		clusters    []string
	}{
		{name: "empty"},
		{name: "a JWT", token: "eyJhbGciOiJSUzI1NiJ9.e30.x"},
		{name: "no base64", token: "k8s-aws-v1.***"},
		{name: "no URL", token: encode("\x7f://")},
		{name: "too long", token: good + strings.Repeat("A", 4096)},
		{name: "another cluster", token: spec{cluster: "foreign"}.token(t)},
		{name: "no cluster", token: good, clusters: []string{}},
		{name: "another header", token: spec{header: "x-other"}.token(t)},
		{name: "another host", token: spec{url: "https://sts.example.com" + query}.token(t)},
		{name: "a host that begins like STS", token: spec{url: "https://sts.amazonaws.com.example.com" + query}.token(t)},
		{name: "plain HTTP", token: spec{url: "http://sts.amazonaws.com" + query}.token(t)},
		{name: "another path", token: spec{url: "https://sts.amazonaws.com/x?Action=GetCallerIdentity&X-Amz-Expires=60"}.token(t)},
		{name: "another action", token: spec{url: "https://sts.amazonaws.com/?Action=AssumeRole&X-Amz-Expires=60"}.token(t)},
		{name: "another parameter", token: spec{url: "https://sts.amazonaws.com" + query + "&x=1"}.token(t)},
		{name: "an action twice", token: spec{url: "https://sts.amazonaws.com" + query + "&action=GetCallerIdentity"}.token(t)},
		{name: "a life too long", token: spec{url: "https://sts.amazonaws.com/?Action=GetCallerIdentity&X-Amz-Expires=901"}.token(t)},
		{name: "another method", token: spec{method: "POST"}.token(t)},
		{name: "expired", token: good, now: signedAt.Add(15*time.Minute + time.Second)},
		{name: "of the future", token: good, now: signedAt.Add(-16 * time.Minute)},
		{name: "unknown key", token: spec{id: "AKIAUNKNOWN000000000"}.token(t)},
		{name: "wrong secret", token: spec{secret: "other"}.token(t)},
		{name: "wrong session token", token: spec{id: sessionID, session: "other"}.token(t)},
		{name: "expired session", token: spec{id: sessionID, session: "token"}.token(t), now: signedAt.Add(6 * time.Minute)},
		{name: "changed host", token: edit(t, good, "sts.eu-central-1.", "sts.us-east-1.")},
		{name: "changed date", token: edit(t, good, "X-Amz-Date=20261130T100000Z", "X-Amz-Date=20261130T100001Z")},
		{name: "changed life", token: edit(t, good, "X-Amz-Expires=60", "X-Amz-Expires=61")},
		{name: "changed version", token: edit(t, good, "2011-06-15", "2011-06-16")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now, clusters := tt.now, tt.clusters
			if now.IsZero() {
				now = signedAt
			}
			if clusters == nil {
				clusters = []string{"c"}
			}
			key, _, err := verifier(t, now).Verify(tt.token, clusters)
			if !errors.Is(err, ekstoken.ErrToken) || key.ID != "" {
				t.Errorf("got key %q and error %v", key.ID, err)
			}
			if err != nil && strings.Contains(err.Error(), "Signature=") {
				t.Errorf("the error tells the token: %v", err)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("https://sts.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIATOKENTEST0000001%2F20261130%2Feu-central-1%2Fsts%2Faws4_request&X-Amz-Date=20261130T100000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Signature=" + strings.Repeat("0", 64))
	f.Add("")
	f.Add("https://sts.amazonaws.com/?%zz;")
	f.Fuzz(func(t *testing.T, uri string) {
		v := verifier(t, signedAt)
		for _, token := range []string{uri, "k8s-aws-v1." + uri, encode(uri), "k8s-aws-v1." + base64.StdEncoding.EncodeToString([]byte(uri))} {
			if key, _, err := v.Verify(token, []string{"c"}); !errors.Is(err, ekstoken.ErrToken) {
				t.Errorf("%q: key %+v, error %v", token, key, err)
			}
		}
	})
}
