package provision

import (
	"encoding/json"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
)

// The defaults of a request that does not say.
const (
	DefaultWorkerCount        = 2
	DefaultWorkerInstanceType = "t3.large"
	DefaultVPCCIDR            = "10.0.0.0/16"
)

// Inputs is a request after validation, defaults filled in and spellings
// normalised, and what earlier runs mean for this one. It is stored with the run
// as JSON and never changes, so a field may be added here but not renamed.
type Inputs struct {
	Name                     string             `json:"name"`
	Environment              string             `json:"terraform_environment"`
	Topology                 api.Topology       `json:"topology"`
	Operation                api.Operation      `json:"operation"`
	Region                   string             `json:"region"`
	CredentialID             string             `json:"credential_id"`
	KubernetesVersion        string             `json:"kubernetes_version"`
	ControlPlaneCount        int                `json:"control_plane_count,omitempty"`         // vanilla_kubeadm
	ControlPlaneInstanceType string             `json:"control_plane_instance_type,omitempty"` // vanilla_kubeadm
	PodCIDR                  string             `json:"pod_cidr,omitempty"`                    // not eks
	WorkerCount              int                `json:"worker_count"`
	WorkerMin                int                `json:"worker_min"`
	WorkerMax                int                `json:"worker_max"`
	WorkerInstanceType       string             `json:"worker_instance_type"`
	VPCCIDR                  string             `json:"vpc_cidr"`
	AvailabilityZones        []string           `json:"availability_zones,omitempty"` // empty: the first that are available
	APIAccess                api.APIAccess      `json:"api_access"`
	APIAllowedCIDRs          []string           `json:"api_allowed_cidrs,omitempty"`
	AdminPrincipalARN        string             `json:"admin_principal_arn,omitempty"`
	KubeconfigAuth           api.KubeconfigAuth `json:"kubeconfig_auth"`
	Tags                     map[string]string  `json:"tags,omitempty"`
	AllowReplacement         bool               `json:"allow_replacement,omitempty"`
	SSHCredentialID          string             `json:"ssh_credential_id,omitempty"`      // existing_machines
	Machines                 []api.Machine      `json:"machines,omitempty"`               // existing_machines
	ControlPlaneEndpoint     string             `json:"control_plane_endpoint,omitempty"` // existing_machines: host:port
	LockID                   string             `json:"lock_id,omitempty"`                // operation unlock
	EndedRuns                []string           `json:"ended_runs,omitempty"`             // of the environment, since its newest success
	RescuedRun               string             `json:"rescued_run,omitempty"`            // the newest of them that could not save its state
}

// ReadInputs reads what a run stored.
func ReadInputs(data json.RawMessage) (Inputs, error) {
	var in Inputs
	if err := json.Unmarshal(data, &in); err != nil {
		return Inputs{}, fmt.Errorf("read the inputs of a run: %w", err)
	}
	return in, nil
}

// StateKey is the key of the Terraform state in its bucket.
const StateKey = "terraform.tfstate"

// StateBucket names the bucket that holds the Terraform state. Names of buckets
// are global, so it is not shortened: the environment's name has to fit.
func (in Inputs) StateBucket() string { return stateBucketPrefix + in.Environment }
