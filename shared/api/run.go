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

// The phases that a run can be in, in the order in which they occur.
const (
	PhaseWaitingForSlot         Phase = "waiting_for_slot"
	PhaseStarting               Phase = "starting"
	PhasePulling                Phase = "pulling"
	PhaseCloning                Phase = "cloning"
	PhasePreparingState         Phase = "preparing_state"
	PhaseInit                   Phase = "init"
	PhasePlan                   Phase = "plan"
	PhaseApply                  Phase = "apply"
	PhaseWaitingForControlPlane Phase = "waiting_for_control_plane"
	PhaseWaitingForNodes        Phase = "waiting_for_nodes"
	PhasePublishing             Phase = "publishing"
	PhaseDone                   Phase = "done"
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

// Progress is how far a live run has come.
type Progress struct {
	Done    int    `json:"done" doc:"Resources that Terraform has finished with"`
	Total   int    `json:"total" doc:"Resources that the plan changes; 0 before the plan is known"`
	Current string `json:"current,omitempty" doc:"Address of a resource that is being worked on"`
}

// Changes counts what a Terraform plan or apply changes.
type Changes struct {
	Add    int `json:"add"`
	Change int `json:"change"`
	Remove int `json:"remove"`
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
