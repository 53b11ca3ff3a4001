package ekstoken

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

func TestNew(t *testing.T) {
	t.Parallel()
	cfg := aws.Config{
		Region: "eu-west-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIAEXAMPLE", SecretAccessKey: "secret", SessionToken: "session"}, nil
		}),
	}
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	token, err := New(t.Context(), cfg, "acme", now)
	if err != nil {
		t.Fatal(err)
	}
	if want := now.Add(14 * time.Minute); !token.Expires.Equal(want) {
		t.Errorf("expires %s, want %s", token.Expires, want)
	}
	encoded, ok := strings.CutPrefix(token.Value, "k8s-aws-v1.")
	if !ok || strings.Contains(encoded, "=") {
		t.Fatalf("token %s", token.Value)
	}
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(decoded))
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme != "https" || u.Host != "sts.eu-west-1.amazonaws.com" {
		t.Errorf("the endpoint is %s://%s, want the region's own", u.Scheme, u.Host)
	}
	query := u.Query()
	for key, want := range map[string]string{
		"Action": "GetCallerIdentity", "X-Amz-Expires": "60", "X-Amz-SignedHeaders": "host;x-k8s-aws-id", "X-Amz-Security-Token": "session",
	} {
		if got := query.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if query.Has(clusterHeader) {
		t.Error("the cluster is in the URL, where anybody could change it")
	}
}
