package api

import "time"

// Status is where a run is in its life. Terminal statuses never change.
type Status string

// The statuses of a run. Which may follow which is shared/runs' table.
const (
	// StatusQueued is accepted, and waiting for a free slot or being started.
	StatusQueued Status = "queued"
	// StatusRunning has a Kubernetes Job.
	StatusRunning Status = "running"
	// StatusCancelling was asked to stop; its pod has not ended yet.
	StatusCancelling Status = "cancelling"
	// StatusSucceeded did all that was asked.
	StatusSucceeded Status = "succeeded"
	// StatusFailed ended without; message and error_code say why.
	StatusFailed Status = "failed"
	// StatusCancelled ended because somebody asked for it.
	StatusCancelled Status = "cancelled"
)

// Phase says where inside a status a run is.
type Phase string

// The phases that a run can be in, in the order in which they occur. Those from
// PreparingState to WaitingForNodes are provisioning runs', those from Clone to
// PushComplete scaffolding runs'.
const (
	PhaseWaitingForSlot         Phase = "waiting_for_slot"
	PhaseStarting               Phase = "starting"
	PhasePulling                Phase = "pulling"
	PhaseCloning                Phase = "cloning"
	PhasePreparingState         Phase = "preparing_state"
	PhaseConnecting             Phase = "connecting" // to machines that exist
	PhasePreparingMachines      Phase = "preparing_machines"
	PhaseResettingMachines      Phase = "resetting_machines"
	PhaseInit                   Phase = "init"
	PhaseUnlock                 Phase = "unlock"
	PhasePlan                   Phase = "plan"
	PhaseCleanUp                Phase = "clean_up"
	PhaseApply                  Phase = "apply"
	PhaseDestroy                Phase = "destroy"
	PhaseWaitingForControlPlane Phase = "waiting_for_control_plane"
	PhaseWaitingForNodes        Phase = "waiting_for_nodes"

	PhaseClone                   Phase = "clone"
	PhaseGenerateInfrastructure  Phase = "generate_infrastructure"
	PhasePushInfrastructure      Phase = "push_infrastructure"
	PhaseWaitingForSealedSecrets Phase = "waiting_for_sealed_secrets"
	PhaseSeal                    Phase = "seal"
	PhasePushComplete            Phase = "push_complete"

	PhasePublishing Phase = "publishing"
	PhaseDone       Phase = "done"
)

// Operation is what a run does to its environment.
type Operation string

// The operations of cluster-provisioner.
const (
	OperationApply   Operation = "apply"
	OperationPlan    Operation = "plan"
	OperationDestroy Operation = "destroy"
	OperationUnlock  Operation = "unlock"
)

// The operations of gitops-scaffolder.
const (
	OperationScaffold Operation = "scaffold"
	OperationDryRun   Operation = "dry_run" // nothing is pushed
)

// Progress is how far a live run has come.
type Progress struct {
	Done    int    `json:"done" doc:"Resources that Terraform has finished with, or steps that a scaffold has"`
	Total   int    `json:"total" doc:"Resources that the plan changes, or all steps; 0 before that is known"`
	Current string `json:"current,omitempty" doc:"Address of a resource that is being worked on"`
}

// Changes counts what a Terraform plan or apply changes.
type Changes struct {
	Add    int `json:"add"`
	Change int `json:"change"`
	Remove int `json:"remove"`
}

// Node is one node of a cluster that is being built.
type Node struct {
	Name    string    `json:"name" doc:"Such as control-plane-0"`
	State   NodeState `json:"state" enum:"waiting,working,joining,joined,failed,reset"`
	Message string    `json:"message,omitempty" doc:"What it is doing, or why it failed"`
}

// NodeState is how far a node is on its way into the cluster.
type NodeState string

// The states of nodes.
const (
	NodeWaiting NodeState = "waiting" // has reported nothing yet
	NodeWorking NodeState = "working" // is being set up, or waits for its turn
	NodeJoining NodeState = "joining" // is being made a member; one at a time
	NodeJoined  NodeState = "joined"
	NodeFailed  NodeState = "failed" // has given up
	NodeReset   NodeState = "reset"  // is no node any more (existing_machines)
)

// StateLock is the lock on a Terraform state that was in a run's way.
type StateLock struct {
	ID      string    `json:"id" doc:"What the unlock operation asks for"`
	Who     string    `json:"who" doc:"Who took it: user@host, the host being the pod of a run"`
	Created time.Time `json:"created,omitzero"`
}

// Event is one entry of a run's timeline.
type Event struct {
	At        time.Time `json:"at"`
	Status    Status    `json:"status"`
	Phase     Phase     `json:"phase,omitempty"`
	Message   string    `json:"message,omitempty"`
	ErrorCode string    `json:"error_code,omitempty"`
	By        string    `json:"by,omitempty" doc:"Name of the API key, for what somebody asked for"`
}

// EventList is a run's timeline, oldest first.
type EventList struct {
	Events []Event `json:"events"`
}

// CancelRequest is the body of POST …/cancel; it may be absent.
type CancelRequest struct {
	Force bool `json:"force,omitempty" doc:"Kill what has not ended in its grace period after a graceful cancel"`
}

// UnlockRequest is the body of POST …/unlock.
type UnlockRequest struct {
	LockID string `json:"lock_id" doc:"Id of the lock, from the message of the run that it stopped"`
}

// RunStatus is the part of a run that changes; every kind of run embeds it.
type RunStatus struct {
	Status        Status     `json:"status" enum:"queued,running,cancelling,succeeded,failed,cancelled" doc:"Where the run is in its life; succeeded, failed and cancelled are final"`
	Phase         Phase      `json:"phase,omitempty" doc:"Where inside the status the run is"`
	Message       string     `json:"message,omitempty" doc:"One human sentence: what is happening, or why the run failed"`
	ErrorCode     string     `json:"error_code,omitempty" doc:"Stable code of a failure"`
	Progress      *Progress  `json:"progress,omitempty"`
	QueuePosition int        `json:"queue_position,omitempty" doc:"Place in the queue, from 1; absent unless queued"`
	CreatedAt     time.Time  `json:"created_at"`
	UpdatedAt     time.Time  `json:"updated_at"`
	StartedAt     *time.Time `json:"started_at,omitempty" doc:"When its Kubernetes Job was created"`
	FinishedAt    *time.Time `json:"finished_at,omitempty"`
}
