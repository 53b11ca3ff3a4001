package runcontract

// ErrorCode is the stable name of a failure; it reaches the API's error_code.
type ErrorCode string

// ExitCode is a runner container's exit code.
type ExitCode int

// The exit codes of a runner's containers and the failures they stand for.
// Codes 64 to 113 are free of meanings that shells, the Go runtime (2) and
// signals (128 and up) give.
const (
	ExitOK                  ExitCode = 0
	ExitInternal            ExitCode = 64
	ExitInvalidSpec         ExitCode = 65
	ExitEnvironmentExists   ExitCode = 66
	ExitCloneFailed         ExitCode = 67
	ExitCredentialRefused   ExitCode = 68
	ExitStateBucket         ExitCode = 69
	ExitStateLocked         ExitCode = 70
	ExitTerraformInit       ExitCode = 71
	ExitTerraformPlan       ExitCode = 72
	ExitReplacementRefused  ExitCode = 73
	ExitTerraformApply      ExitCode = 74
	ExitKubeconfig          ExitCode = 75
	ExitPublish             ExitCode = 76
	ExitInterrupted         ExitCode = 77
	ExitDeadlineExceeded    ExitCode = 78
	ExitMemory              ExitCode = 79
	ExitStateNotSaved       ExitCode = 80
	ExitControlPlaneMissing ExitCode = 81
)

// The error codes of failures that a runner reports.
const (
	CodeInternal               ErrorCode = "runner_internal"
	CodeInvalidSpec            ErrorCode = "invalid_run_spec"
	CodeEnvironmentExists      ErrorCode = "environment_exists"
	CodeCloneFailed            ErrorCode = "modules_clone_failed"
	CodeCredentialRefused      ErrorCode = "credential_refused"
	CodeStateBucket            ErrorCode = "state_bucket"
	CodeStateLocked            ErrorCode = "state_locked"
	CodeTerraformInit          ErrorCode = "terraform_init_failed"
	CodeTerraformPlan          ErrorCode = "terraform_plan_failed"
	CodeReplacementRefused     ErrorCode = "replacement_refused"
	CodeTerraformApply         ErrorCode = "terraform_apply_failed"
	CodeKubeconfig             ErrorCode = "kubeconfig_failed"
	CodePublish                ErrorCode = "publish_failed"
	CodeInterrupted            ErrorCode = "interrupted"
	CodeDeadlineExceeded       ErrorCode = "deadline_exceeded"
	CodeMemory                 ErrorCode = "out_of_memory"
	CodeStateNotSaved          ErrorCode = "state_not_saved"
	CodeControlPlaneIncomplete ErrorCode = "control_plane_incomplete"
)

var codes = map[ExitCode]ErrorCode{
	ExitInternal:            CodeInternal,
	ExitInvalidSpec:         CodeInvalidSpec,
	ExitEnvironmentExists:   CodeEnvironmentExists,
	ExitCloneFailed:         CodeCloneFailed,
	ExitCredentialRefused:   CodeCredentialRefused,
	ExitStateBucket:         CodeStateBucket,
	ExitStateLocked:         CodeStateLocked,
	ExitTerraformInit:       CodeTerraformInit,
	ExitTerraformPlan:       CodeTerraformPlan,
	ExitReplacementRefused:  CodeReplacementRefused,
	ExitTerraformApply:      CodeTerraformApply,
	ExitKubeconfig:          CodeKubeconfig,
	ExitPublish:             CodePublish,
	ExitInterrupted:         CodeInterrupted,
	ExitDeadlineExceeded:    CodeDeadlineExceeded,
	ExitMemory:              CodeMemory,
	ExitStateNotSaved:       CodeStateNotSaved,
	ExitControlPlaneMissing: CodeControlPlaneIncomplete,
}

// Code names the failure that an exit code stands for; ok is false for codes
// that are not a runner's own.
func (c ExitCode) Code() (code ErrorCode, ok bool) {
	code, ok = codes[c]
	return code, ok
}

// Exit is the exit code for a failure; CodeInternal's for unknown ones.
func (e ErrorCode) Exit() ExitCode {
	for exit, code := range codes {
		if code == e {
			return exit
		}
	}
	return ExitInternal
}
