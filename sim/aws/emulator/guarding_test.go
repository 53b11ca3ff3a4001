package emulator_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kubeopera/platform/sim/aws/emulator"
	"github.com/kubeopera/platform/sim/aws/keyring"
)

func TestWhatSomethingDependsOnIsNotDeleted(t *testing.T) {
	t.Parallel()
	const deletesSubnet = "Action=DeleteSubnet&SubnetId=subnet-1"
	tests := []struct {
		name, service, form string
		user                string
		err                 error
		refused             bool
	}{
		{name: "a subnet in use", service: "ec2", form: deletesSubnet, user: "eni-1", refused: true},
		{name: "a subnet out of use", service: "ec2", form: deletesSubnet},
		{name: "a subnet of which nothing is known", service: "ec2", form: deletesSubnet, err: errors.New("no answer")},
		{name: "a VPC in use", service: "ec2", form: "Action=DeleteVpc&VpcId=vpc-1", user: "sg-1", refused: true},
		{name: "a security group in use", service: "ec2", form: "Action=DeleteSecurityGroup&GroupId=sg-1", user: "eni-1", refused: true},
		{name: "anything else", service: "ec2", form: "Action=DeleteVolume&VolumeId=vol-1", user: "i-1"},
		{name: "another service", service: "iam", form: deletesSubnet, user: "eni-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
			dependent := func(_ context.Context, region, id string) (string, error) {
				if region != "eu-central-1" || !strings.HasSuffix(tt.form, "="+id) {
					t.Errorf("asked for %s in %s", id, region)
				}
				return tt.user, tt.err
			}
			ctx := keyring.WithCaller(t.Context(), keyring.Caller{Service: tt.service, Region: "eu-central-1"})
			w := httptest.NewRecorder()
			emulator.Guarding(next, dependent, slog.New(slog.DiscardHandler)).ServeHTTP(w,
				httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(tt.form)))
			if refused := strings.Contains(w.Body.String(), "<Code>DependencyViolation</Code>"); refused != tt.refused || !refused && w.Code != http.StatusNoContent {
				t.Errorf("answer %d %s", w.Code, w.Body)
			}
		})
	}
}
