package emulator_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/kubeopera/platform/sim/aws/emulator"
	"github.com/kubeopera/platform/sim/aws/keyring"
)

func TestGroupsAreSettledAfterWhatLaunchesInstances(t *testing.T) {
	t.Parallel()
	tests := []struct {
		service, action string
		status          int
		want            bool
	}{
		{service: "autoscaling", action: "CreateAutoScalingGroup", want: true},
		{service: "autoscaling", action: "SetDesiredCapacity", want: true},
		{service: "autoscaling", action: "DescribeAutoScalingGroups"},
		{service: "autoscaling", action: "CreateAutoScalingGroup", status: http.StatusBadRequest},
		{service: "ec2", action: "TerminateInstances", want: true},
		{service: "ec2", action: "RunInstances"},
		{service: "iam", action: "CreateRole"},
	}
	for _, tt := range tests {
		var order []string
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			form, err := emulator.ReadForm(r)
			if err != nil || form.Get("Action") != tt.action {
				t.Errorf("%s: form %v, %v", tt.action, form, err)
			}
			order = append(order, "call")
			if tt.status != 0 {
				w.WriteHeader(tt.status)
			}
			_, _ = w.Write([]byte("answer"))
		})
		// An answer does not depend on whether its group could be settled.
		settle := func(_ context.Context, region string) error {
			order = append(order, region)
			return errors.New("no")
		}
		ctx := keyring.WithCaller(t.Context(), keyring.Caller{Service: tt.service, Region: "eu-central-1"})
		w := httptest.NewRecorder()
		emulator.Settling(next, settle, slog.New(slog.DiscardHandler)).ServeHTTP(w,
			httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("Action="+tt.action)))
		want := []string{"call"}
		if tt.want {
			want = append(want, "eu-central-1")
		}
		if !slices.Equal(order, want) || w.Body.String() != "answer" || tt.status != 0 && w.Code != tt.status {
			t.Errorf("%s %s: %v, %d %s", tt.service, tt.action, order, w.Code, w.Body)
		}
	}
}
