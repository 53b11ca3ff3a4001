package joinfault_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/protocol"
	"github.com/kubeopera/platform/sim/machine/joinfault"
)

// Schedules that have broken a promise, each by an error of the scripts that is
// mended.
func TestScenarios(t *testing.T) {
	t.Parallel()
	refused := &protocol.Error{Status: http.StatusBadRequest, Code: "AccessDeniedException", Message: "not now"}
	tests := []struct {
		name     string
		schedule joinfault.Schedule
		failed   []string // beginnings of "<node>: <message>"
	}{
		{name: "nothing goes wrong with three", schedule: joinfault.Schedule{ControlPlanes: 3, Workers: 2}},
		{name: "nothing goes wrong with five", schedule: joinfault.Schedule{ControlPlanes: 5, Workers: 1}},
		{
			// Its member stayed in etcd, which then could not bear another loss.
			name: "a machine goes on for a while after its successor has come",
			schedule: joinfault.Schedule{ControlPlanes: 3, Faults: []joinfault.Fault{
				{Kind: joinfault.Replace, Node: 2, At: 12 * time.Minute, Linger: 10 * time.Minute},
			}},
		},
		{
			name: "a machine runs on beside its successor",
			schedule: joinfault.Schedule{ControlPlanes: 3, Faults: []joinfault.Fault{
				{Kind: joinfault.Replace, Node: 0, At: 12 * time.Minute, Linger: 20 * time.Minute, Unaware: true},
			}},
		},
		{
			// It evicted its successor, and took its slot.
			name: "a machine comes to its turn after its successor",
			schedule: joinfault.Schedule{ControlPlanes: 3, Faults: []joinfault.Fault{
				{Kind: joinfault.Requests, At: time.Minute, Request: faults.Fault{Service: "ssm", Operation: "GetParameters", AccessKeyID: "i-000000000000000a2", Times: 120, Kind: faults.KindDrop}},
				{Kind: joinfault.Replace, Node: 2, At: 2 * time.Minute, Linger: 40 * time.Minute, Unaware: true},
			}},
		},
		{
			// The waits before it were longer than the lease by which the others go.
			name: "a join begins late in its turn",
			schedule: joinfault.Schedule{ControlPlanes: 3, Faults: []joinfault.Fault{
				{Kind: joinfault.Balancer, When: &joinfault.Trigger{Node: 1, Call: "put control_plane_joined", Nth: 1}, For: 590 * time.Second},
				{Kind: joinfault.Shared, When: &joinfault.Trigger{Node: 1, Call: "put control_plane_joined", Nth: 1}},
				{Kind: joinfault.Token, When: &joinfault.Trigger{Node: 1, Call: "put control_plane_joined", Nth: 1}},
			}},
		},
		{
			// That it had failed before counted as the end of its new turn.
			name: "a machine that has given up is rebooted and joins",
			schedule: joinfault.Schedule{ControlPlanes: 5, Override: "KUBEOPERA_MAX_ATTEMPTS=1\n", Faults: []joinfault.Fault{
				{Kind: joinfault.Requests, Request: faults.Fault{Service: "ssm", Operation: "PutParameter", Resource: "control_plane_joined/3", Kind: faults.KindError, Error: refused}},
				{Kind: joinfault.Reboot, Node: 3, At: 20 * time.Minute},
				{Kind: joinfault.Replace, Node: 4, When: &joinfault.Trigger{Node: 3, Call: "put join_turns", Nth: 2}},
				{Kind: joinfault.Requests, At: 20 * time.Minute, Request: faults.Fault{Service: "ssm", Operation: "PutParameter", Resource: "control_plane_joined/3", Times: 2, Kind: faults.KindDelay, Delay: faults.Duration(35 * time.Second)}},
				{Kind: joinfault.Requests, At: 20 * time.Minute, Request: faults.Fault{Service: "ssm", Operation: "PutParameter", Resource: "control_plane_joined/3", Kind: faults.KindDrop}},
			}},
		},
		{
			// EC2 takes minutes to find an instance: that was taken for its end.
			name: "the machine that makes the cluster is not to be found",
			schedule: joinfault.Schedule{ControlPlanes: 3, Unseen: 10 * time.Minute, Faults: []joinfault.Fault{
				{Kind: joinfault.Replace, Node: 0, When: &joinfault.Trigger{Node: 0, Call: "put init_claims", Nth: 1}, Linger: 5 * time.Minute},
			}},
		},
		{
			// It ended without a word, and was waited for.
			name: "a machine gives up while nothing can be written",
			schedule: joinfault.Schedule{ControlPlanes: 3, Workers: 1, Override: "KUBEOPERA_WAIT_SECONDS=600\n", DNS: 14 * time.Minute, Faults: []joinfault.Fault{
				{Kind: joinfault.Requests, At: 7 * time.Minute, Request: faults.Fault{Service: "ssm", Operation: "PutParameter", AccessKeyID: "i-000000000000000a3", Times: 12, Kind: faults.KindDrop}},
			}},
			failed: []string{"control-plane-1", "control-plane-2"}, // the worker tries again, and the cluster is there then
		},
		{
			// The unit was through, and its last word lost.
			name: "the last report is lost",
			schedule: joinfault.Schedule{ControlPlanes: 3, Workers: 1, Faults: []joinfault.Fault{
				{Kind: joinfault.Requests, Request: faults.Fault{Service: "ssm", Operation: "PutParameter", Resource: "bootstrap_status/worker-", Nth: 6, Times: 8, Kind: faults.KindDrop}},
			}},
		},
		{
			// kubeadm reset wiped the data of a member that etcd still counted.
			name: "the other member goes off while a machine takes back a join that was cut off",
			schedule: joinfault.Schedule{ControlPlanes: 3, Faults: []joinfault.Fault{
				{Kind: joinfault.Kill, Node: 1, When: &joinfault.Trigger{Node: 1, Call: "vote", Nth: 1}},
				{Kind: joinfault.Reboot, Node: 0, When: &joinfault.Trigger{Node: 1, Call: "kubeadm reset", Nth: 1}},
			}},
		},
		{
			name: "the other member goes off while a machine takes its member out of etcd",
			schedule: joinfault.Schedule{ControlPlanes: 3, Faults: []joinfault.Fault{
				{Kind: joinfault.Kill, Node: 1, When: &joinfault.Trigger{Node: 1, Call: "vote", Nth: 1}},
				{Kind: joinfault.Reboot, Node: 0, When: &joinfault.Trigger{Node: 1, Call: "kubectl kube-system exec", Nth: 2}},
			}},
		},
		{
			// The token was renewed by its age alone.
			name: "the join token is revoked",
			schedule: joinfault.Schedule{ControlPlanes: 3, Workers: 1, Faults: []joinfault.Fault{
				{Kind: joinfault.Token, When: &joinfault.Trigger{Node: 0, Call: "put control_plane_joined", Nth: 1}},
			}},
		},
		{
			name: "a script starts twice",
			schedule: joinfault.Schedule{ControlPlanes: 3, Faults: []joinfault.Fault{
				{Kind: joinfault.Twice, Node: 0, When: &joinfault.Trigger{Node: 0, Call: "kubeadm init", Nth: 1}},
				{Kind: joinfault.Twice, Node: 1, When: &joinfault.Trigger{Node: 1, Call: "kubeadm join", Nth: 1, After: 10 * time.Second}},
			}},
		},
		{
			name: "no request of a control plane's comes through for long",
			schedule: joinfault.Schedule{ControlPlanes: 3, Override: "KUBEOPERA_MAX_ATTEMPTS=3\n", Faults: []joinfault.Fault{
				{Kind: joinfault.Requests, At: 2 * time.Minute, Request: faults.Fault{Service: "ec2", AccessKeyID: "i-000000000000000a2", Times: faults.Always, Kind: faults.KindError, Error: refused}},
			}},
			failed: []string{"control-plane-2 (000a2): clean up: list machines: An error occurred (AccessDeniedException)"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.schedule.Seed = 1
			result := play(t, tt.schedule)
			var failed []string
			for _, n := range result.Failed() {
				failed = append(failed, fmt.Sprintf("%s: %s", n.Name, n.Message))
			}
			right := len(failed) == len(tt.failed)
			for i := range failed {
				right = right && strings.HasPrefix(failed[i], tt.failed[i])
			}
			if !right {
				t.Errorf("%q failed, want %q\n%s", failed, tt.failed, result)
			}
		})
	}
}
