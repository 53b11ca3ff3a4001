package eksversion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const offered = `{"clusterVersions":[
		{"clusterVersion":"1.9","versionStatus":"EXTENDED_SUPPORT"},
		{"clusterVersion":"1.35","versionStatus":"STANDARD_SUPPORT"},
		{"clusterVersion":"1.30","versionStatus":"UNSUPPORTED"},
		{"clusterVersion":"1.33","versionStatus":"EXTENDED_SUPPORT"}],"nextToken":"2"}`
	const second = `{"clusterVersions":[{"clusterVersion":"1.36","versionStatus":"STANDARD_SUPPORT"}]}`
	supported := []string{"1.36", "1.35", "1.33", "1.9"}
	tests := []struct {
		name, version string
		status        int
		body          string
		supported     []string // of an UnsupportedError; nil: there is none
		unknown       string   // in the text of another error
	}{
		{name: "standard support", version: "1.35", body: offered},
		{name: "extended support", version: "1.33", body: offered},
		{name: "on the second page", version: "1.36", body: offered},
		{name: "not yet there", version: "1.37", body: offered, supported: supported},
		{name: "no longer there", version: "1.30", body: offered, supported: supported},
		{name: "no part of another", version: "1.3", body: offered, supported: supported},
		{name: "not allowed to ask", version: "1.30", status: http.StatusForbidden, body: `{"message":"not authorized to perform: eks:DescribeClusterVersions"}`, unknown: "not authorized"},
		{name: "no such operation", version: "1.30", status: http.StatusNotFound, body: `<html>`, unknown: "ask EKS"},
		{name: "nothing is offered", version: "1.30", body: `{"clusterVersions":[]}`, unknown: "has none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.status != 0 {
					w.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
					w.WriteHeader(tt.status)
				}
				body := tt.body
				if r.URL.Query().Get("nextToken") == "2" {
					body = second
				}
				_, _ = fmt.Fprint(w, body)
			}))
			defer server.Close()
			err := Check(t.Context(), aws.Config{
				Region: "eu-west-1", BaseEndpoint: &server.URL, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
				Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
					return aws.Credentials{AccessKeyID: "AKIAEXAMPLE", SecretAccessKey: "secret"}, nil
				}),
			}, tt.version)
			unsupported, ok := errors.AsType[*UnsupportedError](err)
			switch {
			case tt.supported != nil && !ok, tt.supported == nil && ok:
				t.Fatalf("got %v", err)
			case ok:
				want := &UnsupportedError{Version: tt.version, Region: "eu-west-1", Supported: tt.supported}
				if diff := cmp.Diff(want, unsupported); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				if !strings.Contains(err.Error(), "1.36, 1.35, 1.33, 1.9") {
					t.Errorf("the error does not name the versions: %v", err)
				}
			case (err != nil) != (tt.unknown != "") || err != nil && !strings.Contains(err.Error(), tt.unknown):
				t.Errorf("got %v, want %q", err, tt.unknown)
			}
		})
	}
}
