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
	ExitUnlockRefused       ExitCode = 82
	ExitLeftovers           ExitCode = 83
	ExitVersionUnsupported  ExitCode = 84
	ExitMachinesUnreachable ExitCode = 85
	ExitMachinesFailed      ExitCode = 86

	ExitRepositoryAuth         ExitCode = 90
	ExitRepositoryHostKey      ExitCode = 91
	ExitRepositoryClone        ExitCode = 92
	ExitBranchMissing          ExitCode = 93
	ExitPushRefused            ExitCode = 94
	ExitPushRaced              ExitCode = 95
	ExitNotMerged              ExitCode = 96
	ExitGenerate               ExitCode = 97
	ExitTreeRefused            ExitCode = 98
	ExitTargetUnreachable      ExitCode = 99
	ExitSealedSecretsMissing   ExitCode = 100
	ExitSealedSecretsAmbiguous ExitCode = 101
	ExitFluxFailed             ExitCode = 102
	ExitCertificate            ExitCode = 103
	ExitSeal                   ExitCode = 104
	ExitFluxMissing            ExitCode = 105
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
	CodeUnlockRefused          ErrorCode = "unlock_refused"
	CodeLeftovers              ErrorCode = "leftovers"
	CodeVersionUnsupported     ErrorCode = "kubernetes_version_unsupported"
	CodeMachinesUnreachable    ErrorCode = "machines_unreachable" // or they refuse the key, or have another host key; nothing was changed
	CodeMachinesFailed         ErrorCode = "machines_failed"      // some of them; the others are as they should be

	// Of scaffolding runs.
	CodeRepositoryAuth         ErrorCode = "repository_auth_failed"     // the server refuses the credential
	CodeRepositoryHostKey      ErrorCode = "repository_host_unknown"    // the server has not the key, or certificate, that it should
	CodeRepositoryClone        ErrorCode = "repository_clone_failed"    // no such repository, no connection, …
	CodeBranchMissing          ErrorCode = "branch_missing"             // the repository has commits, but not the branch
	CodePushRefused            ErrorCode = "push_refused"               // a hook, a protected branch, no right to write
	CodePushRaced              ErrorCode = "push_raced"                 // others were faster every time
	CodeNotMerged              ErrorCode = "not_merged"                 // in time, or closed
	CodeGenerate               ErrorCode = "generate_failed"            // the base tree cannot be made into this environment
	CodeTreeRefused            ErrorCode = "tree_refused"               // what was generated did not pass verification
	CodeTargetUnreachable      ErrorCode = "target_unreachable"         // or it refuses the kubeconfig
	CodeSealedSecretsMissing   ErrorCode = "sealed_secrets_unavailable" // in time
	CodeSealedSecretsAmbiguous ErrorCode = "sealed_secrets_ambiguous"   // there are several controllers
	CodeFluxFailed             ErrorCode = "flux_failed"                // Flux says that waiting is useless
	CodeFluxMissing            ErrorCode = "flux_missing"               // nobody applies what was pushed
	CodeCertificate            ErrorCode = "certificate_failed"         // not fetched by any way, expired, no certificate
	CodeSeal                   ErrorCode = "seal_failed"                // such as a value that only rotation can replace
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
	ExitUnlockRefused:       CodeUnlockRefused,
	ExitLeftovers:           CodeLeftovers,
	ExitVersionUnsupported:  CodeVersionUnsupported,
	ExitMachinesUnreachable: CodeMachinesUnreachable,
	ExitMachinesFailed:      CodeMachinesFailed,

	ExitRepositoryAuth:         CodeRepositoryAuth,
	ExitRepositoryHostKey:      CodeRepositoryHostKey,
	ExitRepositoryClone:        CodeRepositoryClone,
	ExitBranchMissing:          CodeBranchMissing,
	ExitPushRefused:            CodePushRefused,
	ExitPushRaced:              CodePushRaced,
	ExitNotMerged:              CodeNotMerged,
	ExitGenerate:               CodeGenerate,
	ExitTreeRefused:            CodeTreeRefused,
	ExitTargetUnreachable:      CodeTargetUnreachable,
	ExitSealedSecretsMissing:   CodeSealedSecretsMissing,
	ExitSealedSecretsAmbiguous: CodeSealedSecretsAmbiguous,
	ExitFluxFailed:             CodeFluxFailed,
	ExitCertificate:            CodeCertificate,
	ExitSeal:                   CodeSeal,
	ExitFluxMissing:            CodeFluxMissing,
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
