package scaffold

import (
	"encoding/json"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// Inputs is a request after validation, defaults filled in and spellings
// normalised, without anything that is secret. It is stored with the run as JSON
// and never changes, so a field may be added here but not renamed.
type Inputs struct {
	Tree          runcontract.ScaffoldInputs `json:"tree"`
	Repository    Repository                 `json:"repository"`
	Target        Target                     `json:"target"`
	Mode          api.PushMode               `json:"mode"`
	Signed        bool                       `json:"signed,omitempty"`
	Rotate        bool                       `json:"rotate,omitempty"`
	RotationOf    string                     `json:"rotation_of,omitempty"` // the run that asked first, of a retry
	AllowDeletion bool                       `json:"allow_deletion,omitempty"`
	DryRun        bool                       `json:"dry_run,omitempty"`
	// Inline are the fields of api.ScaffoldSecrets that the request held in clear:
	// a retry has to bring them again.
	Inline []string `json:"inline,omitempty"`
}

// Repository is where the tree goes.
type Repository struct {
	URL          string                     `json:"url"`
	Branch       string                     `json:"branch"`
	Platform     bool                       `json:"platform,omitempty"` // the platform's own, with its credential
	CredentialID string                     `json:"credential_id,omitempty"`
	Auth         runcontract.RepositoryAuth `json:"auth"`
	Username     string                     `json:"username,omitempty"`
	KnownHosts   string                     `json:"known_hosts,omitempty"`
}

// Target is the cluster that the tree is for.
type Target struct {
	ProvisionID  string                  `json:"provision_id,omitempty"`
	CredentialID string                  `json:"credential_id,omitempty"`
	Server       string                  `json:"server"`
	EKS          *runcontract.EKSCluster `json:"eks,omitempty"`
	Certificate  string                  `json:"certificate,omitempty"`
}

// Operation is what a run with these inputs does.
func (in Inputs) Operation() api.Operation {
	if in.DryRun {
		return api.OperationDryRun
	}
	return api.OperationScaffold
}

// MergeBranch is the branch that is pushed to be merged (PushPullRequest).
func (in Inputs) MergeBranch() string { return "kubeopera/" + in.Tree.Environment }

// ReadInputs reads what a run stored.
func ReadInputs(data json.RawMessage) (Inputs, error) {
	var in Inputs
	if err := json.Unmarshal(data, &in); err != nil {
		return Inputs{}, fmt.Errorf("read the inputs of a run: %w", err)
	}
	return in, nil
}
