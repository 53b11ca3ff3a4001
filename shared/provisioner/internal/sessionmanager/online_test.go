package sessionmanager_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"

	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager"
	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager/sessionmanagertest"
)

func TestWaitOnline(t *testing.T) {
	t.Parallel()
	info := func(status types.PingStatus) types.InstanceInformation {
		return types.InstanceInformation{InstanceId: aws.String(target), PingStatus: status, LastPingDateTime: aws.Time(time.Unix(0, 0))}
	}
	for _, test := range []struct {
		name    string
		service *sessionmanagertest.Service
		want    string // "" for no error
		is      func(error) bool
		took    time.Duration
	}{
		{name: "online", service: &sessionmanagertest.Service{Instances: []types.InstanceInformation{info("Online")}}},
		{
			name: "online after a while", took: 10 * time.Second,
			service: &sessionmanagertest.Service{Instances: []types.InstanceInformation{{}, info("ConnectionLost"), info("Online")}},
		},
		{
			name: "never registered", service: &sessionmanagertest.Service{}, took: 5 * time.Minute,
			want: "instance profile has the policy AmazonSSMManagedInstanceCore", is: isA[*sessionmanager.NotOnlineError],
		},
		{
			name: "offline", service: &sessionmanagertest.Service{Instances: []types.InstanceInformation{info("ConnectionLost")}}, took: 5 * time.Minute,
			want: "offline (ConnectionLost), it was last heard of at 1970-01-01T00:00:00Z", is: isA[*sessionmanager.NotOnlineError],
		},
		{
			name: "denied", service: &sessionmanagertest.Service{DescribeErr: &smithy.GenericAPIError{Code: "AccessDeniedException"}},
			want: "ssm:DescribeInstanceInformation", is: isA[*sessionmanager.AccessDeniedError],
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, test.service, nil, func(w *world, _ net.Conn) {
				t := w.t
				began := time.Now()
				err := w.client.WaitOnline(t.Context(), target)
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !test.is(err)) {
					t.Errorf("error = %T %v, want it to have %q", err, err, test.want)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}
