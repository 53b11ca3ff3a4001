package runcontract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kubeopera/platform/shared/api"
)

// SpecVersion is the version of the run spec that this package writes and reads.
const SpecVersion = 1

// Spec is run.json: all that a runner needs to know and no secret.
type Spec struct {
	Version     int           `json:"version"`
	ID          string        `json:"id"`
	Kind        Kind          `json:"kind"`
	Operation   api.Operation `json:"operation"`
	Name        string        `json:"name"`
	Environment string        `json:"environment"`

	Topology       api.Topology       `json:"topology"`
	Region         string             `json:"region"`
	KubeconfigAuth api.KubeconfigAuth `json:"kubeconfig_auth,omitempty"`
	// KubernetesVersion is what the rendered environment asks EKS for, major.minor;
	// the runner asks EKS before the plan whether it has that. Empty: it does not
	// ask. Of existing_machines it is the version to install, major.minor.patch.
	KubernetesVersion string `json:"kubernetes_version,omitempty"`
	// KubeconfigExec is the exec plugin's command in an EKS kubeconfig: "aws" or "eks-token-helper".
	KubeconfigExec   string `json:"kubeconfig_exec,omitempty"`
	AllowReplacement bool   `json:"allow_replacement,omitempty"`

	// Machines are what a cluster is made of (existing_machines), PodCIDR its pods'
	// range, and ControlPlaneEndpoint, host:port, where its API is found.
	Machines             []Machine `json:"machines,omitempty"`
	PodCIDR              string    `json:"pod_cidr,omitempty"`
	ControlPlaneEndpoint string    `json:"control_plane_endpoint,omitempty"`

	State State `json:"state,omitzero"`
	// LockID is the lock that the operation unlock removes.
	LockID string `json:"lock_id,omitempty"`
	// EndedRuns are earlier runs of the environment whose pods are known to have
	// ended: a lock that one of them holds is stale.
	EndedRuns []string `json:"ended_runs,omitempty"`
	// RescuedRun is the earlier run that left KeyErroredState in its outputs
	// Secret; its file is mounted in RescueDir and pushed before anything else.
	RescuedRun string `json:"rescued_run,omitempty"`

	// Tags are put on what the runner itself creates, such as the state bucket.
	Tags map[string]string `json:"tags,omitempty"`

	// TimeoutSeconds is the runner's own deadline; it interrupts, never kills.
	TimeoutSeconds int `json:"timeout_seconds"`
	// GraceSeconds is the pod's termination grace period.
	GraceSeconds int `json:"grace_seconds"`

	// PollIntervalSeconds is how often the runner looks how far a cluster's nodes
	// are (vanilla_kubeadm); 0 is 20 s.
	PollIntervalSeconds int `json:"poll_interval_seconds,omitempty"`
	// ControlPlaneTimeoutSeconds is how long the runner waits for the control
	// plane, and then again for all of its nodes (vanilla_kubeadm); 0 is 20 min.
	ControlPlaneTimeoutSeconds int `json:"control_plane_timeout_seconds,omitempty"`

	// Env is added to the environment of Terraform and the AWS SDK. Only the
	// service's own configuration can set it (emulators, proxies, CA bundles).
	Env map[string]string `json:"env,omitempty"`
	// TraceParent carries the W3C trace context of the request.
	TraceParent string `json:"traceparent,omitempty"`
}

// Machine is a machine that exists, under its name as a node.
type Machine struct {
	Name string `json:"name"`
	api.Machine
}

// State says where the Terraform state is; existing_machines has none.
type State struct {
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
	// BackendConfig is passed to terraform init; only the service's own
	// configuration can set it (emulators).
	BackendConfig map[string]string `json:"backend_config,omitempty"`
}

// ReadSpec reads a run spec. Unknown fields are errors: a service that is newer
// than the runner must not be obeyed by half.
func ReadSpec(data []byte) (Spec, error) {
	var s Spec
	if err := decodeSpec(data, &s); err != nil {
		return Spec{}, err
	}
	if err := checkVersion(s.Version); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// decodeSpec reads one JSON value that has no other fields than *s.
func decodeSpec(data []byte, s any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		return fmt.Errorf("run spec: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("run spec: more than one JSON value")
	}
	return nil
}

func checkVersion(version int) error {
	if version != SpecVersion {
		return fmt.Errorf("run spec: version %d, this runner reads version %d", version, SpecVersion)
	}
	return nil
}
