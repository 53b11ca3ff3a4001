package runs

import "github.com/kubeopera/platform/shared/runcontract"

// The error codes of failures that a service sees itself; those that a runner
// reports are runcontract's.
const (
	CodeLaunch         runcontract.ErrorCode = "launch_failed"
	CodeImagePull      runcontract.ErrorCode = "image_pull_failed"
	CodeUnschedulable  runcontract.ErrorCode = "unschedulable"
	CodeConfigMissing  runcontract.ErrorCode = "configuration_missing"
	CodeQuota          runcontract.ErrorCode = "quota_exceeded"
	CodePodRefused     runcontract.ErrorCode = "pod_refused"
	CodeNotStarted     runcontract.ErrorCode = "not_started"
	CodeContainerStart runcontract.ErrorCode = "container_start_failed"
	CodeContainer      runcontract.ErrorCode = "container_failed"
	CodeEvicted        runcontract.ErrorCode = "evicted"
	CodeResultMissing  runcontract.ErrorCode = "result_missing"
	CodeLost           runcontract.ErrorCode = "lost"
)

// sentences say what a runner's failure means, for when it left no message.
var sentences = map[runcontract.ErrorCode]string{
	runcontract.CodeInternal:               "the runner failed; its log says why",
	runcontract.CodeInvalidSpec:            "the runner cannot read its run spec; service and runner image must be of the same release",
	runcontract.CodeEnvironmentExists:      "the modules repository already holds this environment; choose another terraform_environment",
	runcontract.CodeCloneFailed:            "the modules repository could not be cloned; check its URL, ref and credential in the service's configuration",
	runcontract.CodeCredentialRefused:      "AWS refused the credential; check that it is valid and may do what the run needs",
	runcontract.CodeStateBucket:            "the state bucket could not be created or used; the log says why",
	runcontract.CodeStateLocked:            "another process holds the lock of the Terraform state; wait for it to end",
	runcontract.CodeTerraformInit:          "terraform init failed; the log says why",
	runcontract.CodeTerraformPlan:          "terraform plan failed; the log says why",
	runcontract.CodeReplacementRefused:     "the plan would replace or delete the network, the cluster or its control plane; set allow_replacement if that is wanted",
	runcontract.CodeTerraformApply:         "terraform apply failed; the log says why",
	runcontract.CodeKubeconfig:             "no kubeconfig could be made for the cluster; the log says why",
	runcontract.CodePublish:                "the run's outputs could not be published; start the run again",
	runcontract.CodeInterrupted:            "the run was interrupted from outside; start it again to resume from the saved state",
	runcontract.CodeDeadlineExceeded:       "the run took longer than its deadline; start it again to resume from the saved state",
	runcontract.CodeMemory:                 "the run needed more memory than its container may have; raise the memory limit of the Job",
	runcontract.CodeStateNotSaved:          "the Terraform state could not be saved to its bucket; the log says what was created",
	runcontract.CodeControlPlaneIncomplete: "not every control-plane node joined the cluster in time; start the run again to resume",
}
