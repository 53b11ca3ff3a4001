package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/shared/runner/publish"
	"github.com/kubeopera/platform/shared/runner/runlog"
	"github.com/kubeopera/platform/tfrunner/internal/events"
	"github.com/kubeopera/platform/tfrunner/internal/machines"
	"github.com/kubeopera/platform/tfrunner/internal/memory"
	"github.com/kubeopera/platform/tfrunner/internal/run"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
	"github.com/kubeopera/platform/tfrunner/internal/workdir"
)

const runHelp = `terraform-runner run [flags]

Carries out the run that run.json in the mounted environment describes, and
publishes progress and result in the outputs Secret.

  apply    checks the AWS credential, makes sure of the state bucket, runs
           terraform init, plan and apply, waits until the nodes of a kubeadm
           cluster have set themselves up, and makes the kubeconfig
  plan     says what apply would change
  destroy  removes what the cluster has made in AWS by itself, and what Terraform made
  unlock   removes the lock of the state that the run names

Existing machines have no Terraform and no state: apply connects to all of them and
makes a cluster of them, plan says what that would execute where, destroy resets them.

A state that an earlier run could not save is saved before anything else. SIGTERM,
the deadline or a lack of memory interrupts Terraform once; it saves its state and
releases its lock before the run ends. The wait for nodes ends at once; the same
run again takes it up.

Environment:
  ENVIRONMENT           the environment; default: the one whose folder has a run.json
  POD_NAMESPACE         namespace of the outputs Secret
  POD_NAME              this pod: locks that name it are the run's own
  MEMORY_LIMIT_BYTES    the container's memory limit; default: the cgroup's
  TERRAFORM_BINARY      default: terraform on PATH
  TERRAFORM_LOCK_FILE   provider lock file that belongs to the provider mirror, if it exists
  TF_CLI_CONFIG_FILE    Terraform's own configuration: where the provider mirror is
  KUBECONFIG            API server to publish to; default: the pod's service account

Exit codes: 64 internal, 65 invalid run spec, 68 credential refused, 69 state
bucket, 70 state locked, 71 init, 72 plan, 73 replacement refused, 74 apply,
75 kubeconfig, 76 publish, 77 interrupted, 78 deadline, 79 memory, 80 state not
saved, 81 control plane incomplete, 82 unlock refused, 83 leftovers, 84 Kubernetes
version unsupported, 85 machines unreachable, 86 machines failed.

Flags:
`

// defaultLockFile is where the image keeps the lock file of its provider mirror.
const defaultLockFile = "/usr/share/terraform/terraform.lock.hcl"

// defaultLockTimeout is how long Terraform waits for a lock that somebody holds.
const defaultLockTimeout = 30 * time.Second

type runFlags struct {
	modulesDir         string
	credentialDir      string
	rescueDir          string
	terminationMessage string
	lockTimeout        time.Duration
}

func runCommand(args []string, p runner.Process) runcontract.ExitCode {
	var f runFlags
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.StringVar(&f.modulesDir, "modules-dir", runcontract.ModulesDir, "clone of the modules repository")
	flags.StringVar(&f.credentialDir, "credential-dir", runcontract.CredentialDir, "folder with the AWS credential's files")
	flags.StringVar(&f.rescueDir, "rescue-dir", runcontract.RescueDir, "folder with the state that an earlier run left in its outputs Secret")
	flags.StringVar(&f.terminationMessage, "termination-message", runcontract.TerminationMessagePath, "file for the container's termination message")
	flags.DurationVar(&f.lockTimeout, "lock-timeout", defaultLockTimeout, "how long to wait for a state lock that somebody else holds")
	if code, done := p.Parse(flags, runHelp, args); done {
		return code
	}
	// From here on a signal means: stop in order.
	ctx, stop := runner.Interruptible()
	defer stop()

	files, machineFiles := awsconfig.FilesIn(f.credentialDir), machines.FilesIn(f.credentialDir)
	secrets, secretsErr := files.Secrets()
	machineSecrets, err := machineFiles.Secrets()
	secretsErr = errors.Join(secretsErr, err)
	redactor := redact.New(append(secrets, machineSecrets...)...)
	log := runlog.New(p.Stdout, redactor)
	defer log.Close()
	refuse := func(code runcontract.ErrorCode, err error) runcontract.ExitCode {
		return runner.Refuse(f.terminationMessage, api.PhasePreparingState, code, err, redactor, log)
	}
	log.Printf("terraform-runner %s", runner.Version())
	if secretsErr != nil {
		return refuse(runcontract.CodeCredentialRefused, secretsErr)
	}
	environmentDir, spec, err := readSpec(f.modulesDir, p.Getenv("ENVIRONMENT"))
	if err != nil {
		return refuse(runcontract.CodeInvalidSpec, err)
	}
	log.Printf("run %s: %s of environment %s (%s in %s)", spec.ID, spec.Operation, spec.Environment, spec.Topology, spec.Region)
	if err := adoptEnv(spec.Env, p); err != nil {
		return refuse(runcontract.CodeInvalidSpec, err)
	}
	watch, err := memory.New(p.Getenv(runcontract.EnvMemoryLimit))
	if err != nil {
		return refuse(runcontract.CodeInvalidSpec, err)
	}
	secretsClient, namespace, err := p.OutputsClient()
	if err != nil {
		return refuse(runcontract.CodePublish, err)
	}

	publisher := publish.New(publish.Config{
		Secrets:            secretsClient,
		Name:               runcontract.OutputsSecretName(spec.Kind, spec.ID),
		Namespace:          namespace,
		Labels:             publish.Labels(spec.Kind, spec.ID, spec.Environment),
		TerminationMessage: f.terminationMessage,
		Redactor:           redactor,
		Warn:               func(format string, args ...any) { log.Printf("warning: "+format, args...) },
	})
	if spec.Topology == api.TopologyExistingMachines {
		result, err := runMachines(ctx, machinesConfig{
			spec: spec, files: machineFiles, account: &account{files: files, spec: spec}, publisher: publisher, log: log, redactor: redactor,
		})
		if err != nil {
			return refuse(runcontract.CodeCredentialRefused, err)
		}
		return ended(result)
	}
	dir := workdir.Path(f.modulesDir, spec.Environment)
	return ended(run.Run(ctx, run.Config{
		Spec:        spec,
		AWS:         &account{files: files, spec: spec},
		Log:         log,
		RescueDir:   f.rescueDir,
		Pod:         ownHost(p.Getenv(runcontract.EnvPodName)),
		LockTimeout: f.lockTimeout,
		Memory:      watch,
		Hide:        redactor.Add,
		Publisher:   publisher,
		Terraform: func(onEvent func(events.Event)) (run.Terraform, error) {
			binary, err := terraformBinary(p.Getenv)
			if err != nil {
				return nil, err
			}
			lockFile := p.Getenv("TERRAFORM_LOCK_FILE")
			if lockFile == "" {
				lockFile = defaultLockFile
			}
			if err := workdir.Create(dir, environmentDir, lockFile); err != nil {
				return nil, err
			}
			return terraform.New(terraform.Config{
				Binary:      binary,
				Dir:         dir,
				Env:         terraform.Env(p.Getenv, spec.Env, files.Env(), watch.Limit()),
				WaitDelay:   run.WaitDelay(spec),
				LockTimeout: f.lockTimeout,
				OnEvent:     onEvent,
			})
		},
	}))
}

// ended is the exit code that goes with a result.
func ended(result runcontract.Result) runcontract.ExitCode {
	if result.Outcome == runcontract.OutcomeSucceeded {
		return runcontract.ExitOK
	}
	return result.ErrorCode.Exit()
}

// ownHost is the host that the locks of this pod's Terraform name: the pod's name,
// unless the pod has its node's name or a shortened one, which others may have too.
func ownHost(pod string) string {
	if host, err := os.Hostname(); err != nil || host != pod {
		return ""
	}
	return pod
}

// readSpec finds the environment's folder in the clone and reads its run spec.
func readSpec(modulesDir, environment string) (dir string, spec runcontract.Spec, err error) {
	path := filepath.Join(modulesDir, "environments", environment, runcontract.SpecFile)
	if environment == "" {
		found, err := filepath.Glob(filepath.Join(modulesDir, "environments", "*", runcontract.SpecFile))
		if err != nil {
			return "", spec, fmt.Errorf("find the run spec: %w", err)
		}
		if len(found) != 1 {
			return "", spec, fmt.Errorf("there are %d environments with a %s in %s; want one", len(found), runcontract.SpecFile, modulesDir)
		}
		path = found[0]
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", spec, fmt.Errorf("read the run spec: %w", err)
	}
	if spec, err = runcontract.ReadSpec(data); err != nil {
		return "", spec, err
	}
	dir = filepath.Dir(path)
	if spec.ID == "" || spec.Environment != filepath.Base(dir) {
		return "", spec, errors.New("the run spec has no id, or another environment than its folder")
	}
	return dir, spec, nil
}

// adoptEnv checks the run spec's variables and puts them into this process's
// environment.
func adoptEnv(env map[string]string, p runner.Process) error {
	if err := terraform.CheckEnv(env); err != nil {
		return fmt.Errorf("run spec: env: %w", err)
	}
	return p.AdoptEnv(env)
}
