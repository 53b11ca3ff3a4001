package scaffold

import (
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runservice"
)

// View is a run as the API shows it.
func View(run runs.Run) (api.Scaffold, error) {
	in, err := ReadInputs(run.Inputs)
	if err != nil {
		return api.Scaffold{}, fmt.Errorf("run %s: %w", run.ID, err)
	}
	view := api.Scaffold{
		ID:               string(run.ID),
		Environment:      run.Environment,
		Domain:           in.Tree.Domain,
		Region:           in.Tree.Region,
		Email:            in.Tree.Email,
		RepositoryURL:    in.Repository.URL,
		Branch:           in.Repository.Branch,
		ProvisionID:      in.Target.ProvisionID,
		Server:           in.Target.Server,
		CredentialID:     in.Target.CredentialID,
		Services:         in.Tree.Services,
		RegistryServer:   in.Tree.Registry.Server,
		RegistryUsername: in.Tree.Registry.Username,
		Mode:             in.Mode,
		RotateSecrets:    in.Rotate,
		AllowDeletion:    in.AllowDeletion,
		DryRun:           in.DryRun,
		RetryOf:          string(run.RetryOf),
		RequestedBy:      run.RequestedBy,
		RunStatus:        runservice.Status(run),
	}
	if run.Details.Scaffold != nil {
		view.ScaffoldOutput = *run.Details.Scaffold
	}
	return view, nil
}
