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
	"github.com/kubeopera/platform/tfrunner/internal/awsconfig"
	"github.com/kubeopera/platform/tfrunner/internal/events"
	"github.com/kubeopera/platform/tfrunner/internal/publish"
	"github.com/kubeopera/platform/tfrunner/internal/run"
	"github.com/kubeopera/platform/tfrunner/internal/runlog"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
	"github.com/kubeopera/platform/tfrunner/internal/workdir"
)

const runHelp = `terraform-runner run [flags]

Carries out the run that run.json in the mounted environment describes: checks
the AWS credential, makes sure of the state bucket, runs terraform init, plan and
apply, waits until the nodes of a kubeadm cluster have set themselves up, makes
the kubeconfig, and publishes progress and result in the outputs Secret. SIGTERM
interrupts Terraform once; it saves its state and releases its lock before the run
ends. The wait for nodes ends at once; the same run again takes it up.

Environment:
  ENVIRONMENT           the environment; default: the one whose folder has a run.json
  POD_NAMESPACE         namespace of the outputs Secret
  TERRAFORM_BINARY      default: terraform on PATH
  TERRAFORM_LOCK_FILE   provider lock file that belongs to the provider mirror, if it exists
  TF_CLI_CONFIG_FILE    Terraform's own configuration: where the provider mirror is
  KUBECONFIG            API server to publish to; default: the pod's service account

Exit codes: 64 internal, 65 invalid run spec, 68 credential refused, 69 state
bucket, 70 state locked, 71 init, 72 plan, 73 replacement refused, 74 apply,
75 kubeconfig, 76 publish, 77 interrupted, 78 deadline, 80 state not saved,
81 control plane incomplete.

Flags:
`

// defaultLockFile is where the image keeps the lock file of its provider mirror.
const defaultLockFile = "/usr/share/terraform/terraform.lock.hcl"

// defaultLockTimeout is how long Terraform waits for a lock that somebody holds.
const defaultLockTimeout = 30 * time.Second

type runFlags struct {
	modulesDir         string
	credentialDir      string
	terminationMessage string
	lockTimeout        time.Duration
}

func runCommand(args []string, p process) runcontract.ExitCode {
	var f runFlags
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.StringVar(&f.modulesDir, "modules-dir", runcontract.ModulesDir, "clone of the modules repository")
	flags.StringVar(&f.credentialDir, "credential-dir", runcontract.CredentialDir, "folder with the AWS credential's files")
	flags.StringVar(&f.terminationMessage, "termination-message", runcontract.TerminationMessagePath, "file for the container's termination message")
	flags.DurationVar(&f.lockTimeout, "lock-timeout", defaultLockTimeout, "how long to wait for a state lock that somebody else holds")
	if code, done := parse(flags, runHelp, args, p); done {
		return code
	}
	// From here on a signal means: stop in order.
	ctx, stop := interruptible()
	defer stop()

	files := awsconfig.FilesIn(f.credentialDir)
	secrets, secretsErr := files.Secrets()
	redactor := redact.New(secrets...)
	log := runlog.New(p.stdout, redactor)
	defer log.Close()
	refuse := func(code runcontract.ErrorCode, err error) runcontract.ExitCode {
		return refuseRun(f.terminationMessage, code, err, redactor, log)
	}
	log.Printf("terraform-runner %s", version())
	if secretsErr != nil {
		return refuse(runcontract.CodeCredentialRefused, secretsErr)
	}
	environmentDir, spec, err := readSpec(f.modulesDir, p.getenv("ENVIRONMENT"))
	if err != nil {
		return refuse(runcontract.CodeInvalidSpec, err)
	}
	log.Printf("run %s: %s of environment %s (%s in %s)", spec.ID, spec.Operation, spec.Environment, spec.Topology, spec.Region)
	if err := adoptEnv(spec.Env, p); err != nil {
		return refuse(runcontract.CodeInvalidSpec, err)
	}
	secretsClient, namespace, err := secretsClient(p.getenv)
	if err != nil {
		return refuse(runcontract.CodePublish, err)
	}

	dir := workdir.Path(f.modulesDir, spec.Environment)
	result := run.Run(ctx, run.Config{
		Spec:    spec,
		AWS:     &account{files: files, spec: spec},
		Log:     log,
		WorkDir: dir,
		Hide:    redactor.Add,
		Publisher: publish.New(publish.Config{
			Secrets:            secretsClient,
			Name:               runcontract.OutputsSecretName(spec.Kind, spec.ID),
			Namespace:          namespace,
			Labels:             publish.Labels(spec),
			TerminationMessage: f.terminationMessage,
			Redactor:           redactor,
			Warn:               func(format string, args ...any) { log.Printf("warning: "+format, args...) },
		}),
		Terraform: func(onEvent func(events.Event)) (run.Terraform, error) {
			binary, err := terraformBinary(p.getenv)
			if err != nil {
				return nil, err
			}
			lockFile := p.getenv("TERRAFORM_LOCK_FILE")
			if lockFile == "" {
				lockFile = defaultLockFile
			}
			if err := workdir.Create(dir, environmentDir, lockFile); err != nil {
				return nil, err
			}
			return terraform.New(terraform.Config{
				Binary:      binary,
				Dir:         dir,
				Env:         terraform.Env(p.getenv, spec.Env, files.Env()),
				WaitDelay:   run.WaitDelay(spec),
				LockTimeout: f.lockTimeout,
				OnEvent:     onEvent,
			})
		},
	})
	if result.Outcome == runcontract.OutcomeSucceeded {
		return runcontract.ExitOK
	}
	return result.ErrorCode.Exit()
}

// refuseRun ends a run of which so little is known that there is no Secret to publish to.
func refuseRun(terminationMessage string, code runcontract.ErrorCode, err error, redactor *redact.Redactor, log *runlog.Log) runcontract.ExitCode {
	log.Printf("== failed (%s): %v", code, err)
	result := runcontract.Result{
		Outcome:    runcontract.OutcomeFailed,
		Phase:      api.PhasePreparingState,
		ErrorCode:  code,
		Message:    redactor.String(err.Error()),
		FinishedAt: time.Now().UTC(),
	}
	if err := os.WriteFile(terminationMessage, result.Compact(), 0o600); err != nil {
		log.Printf("warning: write the termination message: %v", err)
	}
	return code.Exit()
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

// adoptEnv puts the run spec's variables into this process's environment, from
// where the AWS SDK takes endpoints, proxies and CA bundles.
func adoptEnv(env map[string]string, p process) error {
	if err := terraform.CheckEnv(env); err != nil {
		return fmt.Errorf("run spec: env: %w", err)
	}
	for key, value := range env {
		if err := p.setenv(key, value); err != nil {
			return fmt.Errorf("run spec: env: %w", err)
		}
	}
	// Nobody makes the home folder in a container whose only writable folders are mounts.
	if home := p.getenv("HOME"); home != "" {
		// Terraform says clearly enough what it cannot write.
		_ = os.MkdirAll(home, 0o700)
	}
	return nil
}
