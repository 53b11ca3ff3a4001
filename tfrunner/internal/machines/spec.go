package machines

import (
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// CheckSpec refuses what such a run cannot do.
func CheckSpec(s runcontract.Spec) error {
	var problems []error
	if s.Kind != runcontract.KindProvision {
		problems = append(problems, fmt.Errorf("kind %q is not this runner's", s.Kind))
	}
	switch s.Operation {
	case api.OperationApply, api.OperationPlan, api.OperationDestroy:
	default:
		problems = append(problems, fmt.Errorf("operation %q is not available for existing machines", s.Operation))
	}
	for _, field := range []struct{ name, value string }{
		{"name", s.Name},
		{"environment", s.Environment},
		{"kubernetes_version", s.KubernetesVersion},
		{"control_plane_endpoint", s.ControlPlaneEndpoint},
		{"pod_cidr", s.PodCIDR},
	} {
		if field.value == "" {
			problems = append(problems, fmt.Errorf("%s is empty", field.name))
		}
	}
	if len(s.Machines) == 0 {
		problems = append(problems, errors.New("there are no machines"))
	}
	seen := map[string]bool{}
	for i, m := range s.Machines {
		switch {
		case m.Name == "" || m.User == "" || m.HostKey == "" || m.Address == "" && m.InstanceID == "":
			problems = append(problems, fmt.Errorf("machines[%d] lacks its name, user, host key or address", i))
		case seen[m.Name]:
			problems = append(problems, fmt.Errorf("machines[%d] has the name of another one", i))
		}
		seen[m.Name] = true
	}
	if s.TimeoutSeconds <= 0 || s.GraceSeconds <= 0 {
		problems = append(problems, errors.New("timeout_seconds and grace_seconds must be positive"))
	}
	return errors.Join(problems...)
}
