package provision

import (
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runservice"
)

// View is a run as the API shows it.
func View(run runs.Run) (api.Provision, error) {
	in, err := ReadInputs(run.Inputs)
	if err != nil {
		return api.Provision{}, fmt.Errorf("run %s: %w", run.ID, err)
	}
	return api.Provision{
		ID:                   string(run.ID),
		Name:                 run.Name,
		TerraformEnvironment: run.Environment,
		Topology:             in.Topology,
		Region:               in.Region,
		CredentialID:         in.CredentialID,
		KubernetesVersion:    in.KubernetesVersion,
		Operation:            run.Operation,
		RetryOf:              string(run.RetryOf),
		RequestedBy:          run.RequestedBy,
		RunStatus:            runservice.Status(run),
		ProvisionDetails:     api.ProvisionDetails{Nodes: run.Details.Nodes, Changes: run.Details.Changes, Lock: run.Details.Lock},
	}, nil
}
