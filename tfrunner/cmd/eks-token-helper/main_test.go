package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1beta1"
)

func TestRun(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	var out strings.Builder
	if err := run(t.Context(), []string{"--region", "eu-west-1", "--cluster-name", "acme"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got clientauthentication.ExecCredential
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.APIVersion != "client.authentication.k8s.io/v1beta1" || got.Kind != "ExecCredential" {
		t.Errorf("type %s %s", got.APIVersion, got.Kind)
	}
	if got.Status == nil || !strings.HasPrefix(got.Status.Token, "k8s-aws-v1.") || got.Status.ExpirationTimestamp.IsZero() {
		t.Errorf("status %+v", got.Status)
	}
}

func TestRun_refuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		help bool
	}{
		{"no region", []string{"--cluster-name", "acme"}, false},
		{"no cluster", []string{"--region", "eu-west-1"}, false},
		{"more", []string{"--region", "eu-west-1", "--cluster-name", "acme", "x"}, false},
		{"help", []string{"--help"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			err := run(t.Context(), tt.args, &stdout, &stderr)
			if err == nil || errors.Is(err, flag.ErrHelp) != tt.help {
				t.Errorf("error %v", err)
			}
			if stdout.Len() > 0 || !strings.Contains(stderr.String(), "--cluster-name NAME") {
				t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
			}
		})
	}
}
