package run

import (
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// CheckSpec refuses what this runner cannot do.
func CheckSpec(s runcontract.Spec) error {
	var problems []error
	if s.Kind != runcontract.KindProvision {
		problems = append(problems, fmt.Errorf("kind %q is not this runner's", s.Kind))
	}
	switch s.Operation {
	case api.OperationApply, api.OperationPlan, api.OperationDestroy:
		problems = append(problems, checkTopology(s))
	case api.OperationUnlock:
		if s.LockID == "" {
			problems = append(problems, errors.New("lock_id is empty"))
		}
	default:
		problems = append(problems, fmt.Errorf("operation %q is not available in this version", s.Operation))
	}
	for _, field := range []struct{ name, value string }{
		{"environment", s.Environment}, {"region", s.Region}, {"state.bucket", s.State.Bucket}, {"state.key", s.State.Key},
	} {
		if field.value == "" {
			problems = append(problems, fmt.Errorf("%s is empty", field.name))
		}
	}
	if s.TimeoutSeconds <= 0 || s.GraceSeconds <= 0 {
		problems = append(problems, errors.New("timeout_seconds and grace_seconds must be positive"))
	}
	if s.PollIntervalSeconds < 0 || s.ControlPlaneTimeoutSeconds < 0 {
		problems = append(problems, errors.New("poll_interval_seconds and control_plane_timeout_seconds must not be negative"))
	}
	return errors.Join(problems...)
}

func checkTopology(s runcontract.Spec) error {
	switch s.Topology {
	case api.TopologyEKS:
		return nil
	case api.TopologyVanillaKubeadm:
		if s.Name == "" {
			return errors.New("name is empty")
		}
		return nil
	case api.TopologyExistingMachines:
	}
	return fmt.Errorf("topology %q is not available in this version", s.Topology)
}
