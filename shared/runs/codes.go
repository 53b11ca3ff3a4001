package runs

import (
	"slices"

	"github.com/kubeopera/platform/shared/runcontract"
)

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

// known says whether a code is one of ours or one that a runner of this release
// reports.
func known(code runcontract.ErrorCode) bool {
	ours := []runcontract.ErrorCode{
		CodeLaunch, CodeImagePull, CodeUnschedulable, CodeConfigMissing, CodeQuota, CodePodRefused,
		CodeNotStarted, CodeContainerStart, CodeContainer, CodeEvicted, CodeResultMissing, CodeLost,
	}
	return slices.Contains(ours, code) || code == runcontract.CodeInternal || code.Exit() != runcontract.ExitInternal
}

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
	runcontract.CodeInterrupted:            "the run was interrupted from outside; start it again to go on from what was saved",
	runcontract.CodeDeadlineExceeded:       "the run took longer than its deadline; start it again to go on from what was saved",
	runcontract.CodeMemory:                 "the run needed more memory than its container may have; raise the memory limit of the Job",
	runcontract.CodeStateNotSaved:          "the Terraform state could not be saved to its bucket; the log says whether it was kept: if so, starting the run again saves it before anything else",
	runcontract.CodeUnlockRefused:          "the lock was not removed: it is not the one that was named, or its holder may be at work",
	runcontract.CodeLeftovers:              "what the cluster itself created in AWS could not be removed; the log says what",
	runcontract.CodeVersionUnsupported:     "AWS does not offer this Kubernetes version; choose another kubernetes_version",
	runcontract.CodeRepositoryAuth:         "the Git server refuses the credential; check that it is valid and may read and write the repository",
	runcontract.CodeRepositoryHostKey:      "the Git server did not prove who it is; check known_hosts, or the CA in the service's configuration",
	runcontract.CodeRepositoryClone:        "the repository could not be cloned; check its URL, and that it can be reached",
	runcontract.CodeBranchMissing:          "the repository has no such branch; create it, or name another",
	runcontract.CodePushRefused:            "the Git server refused the push, by a hook or because the branch is protected; mode pull_request pushes a branch of its own",
	runcontract.CodePushRaced:              "others have pushed to the branch every time the run tried to; start the run again",
	runcontract.CodeNotMerged:              "the run's branch was not merged in time; merge it and start the run again",
	runcontract.CodeGenerate:               "the environment cannot be generated from the repository's base; the log says why",
	runcontract.CodeTreeRefused:            "the generated tree did not pass its checks, so that nothing was pushed; the log says what is wrong",
	runcontract.CodeTargetUnreachable:      "the target cluster cannot be reached, or refuses the kubeconfig",
	runcontract.CodeSealedSecretsMissing:   "sealed-secrets did not become available on the target in time; Flux on the target says why",
	runcontract.CodeSealedSecretsAmbiguous: "the target has more than one sealed-secrets controller; leave one of them",
	runcontract.CodeFluxFailed:             "Flux on the target has given up on the infrastructure layer; its conditions say why",
	runcontract.CodeFluxMissing:            "Flux is not on the target, or does not apply the environment's folder; bootstrap it and start the run again",
	runcontract.CodeCertificate:            "the certificate of the target's sealed-secrets controller could not be fetched; give it as target.certificate",
	runcontract.CodeSeal:                   "a secret could not be sealed; the log says which",
	runcontract.CodeControlPlaneIncomplete: "not every control-plane node joined the cluster in time; start the run again to resume",
	runcontract.CodeMachinesUnreachable:    "machines cannot be reached as the request says; nothing was changed. The log says why",
	runcontract.CodeMachinesFailed:         "not every machine could be set up; start the run again to resume. nodes says which and why",
}
