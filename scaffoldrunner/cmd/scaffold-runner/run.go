package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubeopera/platform/scaffoldrunner/internal/scaffold"
	"github.com/kubeopera/platform/scaffoldrunner/platform"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/publish"
	"github.com/kubeopera/platform/shared/runner/runlog"
)

const runHelp = `scaffold-runner run [flags]

Carries out the run that the mounted run.json describes, and publishes progress
and result in the outputs Secret.

  scaffold  generates the infrastructure layer and pushes it, unless the cluster
            has sealed-secrets already; waits until sealed-secrets is available;
            seals the environment's secrets for its certificate; pushes everything
  dry_run   pushes nothing, and publishes what would change as a diff

What a run does is decided by what the repository and the cluster have: the same
run again does what is left to do, and nothing if that is nothing. SIGTERM and the
deadline end it wherever it is.

Environment:
  POD_NAMESPACE   namespace of the outputs Secret
  KUBECONFIG      API server to publish to; default: the pod's service account
  TMPDIR          folder for the clone, which needs no more room than the newest commit

Exit codes: 64 internal, 65 invalid run spec, 68 AWS credential refused, 76 publish,
77 interrupted, 78 deadline, 90 repository credential refused, 91 unknown host, 92
clone, 93 branch missing, 94 push refused, 95 push raced, 96 not merged, 97
generate, 98 tree refused, 99 target unreachable, 100 sealed-secrets unavailable,
101 several sealed-secrets, 102 Flux has given up, 103 certificate, 104 seal, 105 no Flux.

Flags:
`

type runFlags struct {
	specDir            string
	credentialDir      string
	caDir              string
	terminationMessage string
}

func runCommand(args []string, p runner.Process) runcontract.ExitCode {
	var f runFlags
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.StringVar(&f.specDir, "spec-dir", runcontract.SpecDir, "folder with run.json")
	flags.StringVar(&f.credentialDir, "credential-dir", runcontract.CredentialDir, "folder with the credentials' files")
	flags.StringVar(&f.caDir, "repository-ca-dir", runcontract.RepositoryCADir, "folder with the CA bundle of the repository's server, if the run has one")
	flags.StringVar(&f.terminationMessage, "termination-message", runcontract.TerminationMessagePath, "file for the container's termination message")
	if code, done := p.Parse(flags, runHelp, args); done {
		return code
	}
	// From here on a signal means: stop in order.
	ctx, stop := runner.Interruptible()
	defer stop()

	redactor := redact.New()
	log := runlog.New(p.Stdout, redactor)
	defer log.Close()
	refuse := func(code runcontract.ErrorCode, err error) runcontract.ExitCode {
		return runner.Refuse(f.terminationMessage, api.PhaseClone, code, err, redactor, log)
	}
	log.Printf("%s %s", p.Name, runner.Version())
	credentials, err := readCredentials(f.credentialDir)
	if err != nil {
		return refuse(runcontract.CodeInvalidSpec, err)
	}
	redactor.Add(credentials.secrets...)
	data, err := os.ReadFile(filepath.Join(f.specDir, runcontract.SpecFile))
	if err != nil {
		return refuse(runcontract.CodeInvalidSpec, fmt.Errorf("read the run spec: %w", err))
	}
	spec, err := runcontract.ReadScaffoldSpec(data)
	if err == nil {
		err = scaffold.CheckSpec(spec)
	}
	if err == nil {
		err = credentials.check(spec)
	}
	if err == nil {
		err = p.AdoptEnv(spec.Env)
	}
	if err != nil {
		return refuse(runcontract.CodeInvalidSpec, err)
	}
	log.Printf("run %s: %s of environment %s in %s, branch %s", spec.ID, spec.Operation, spec.Inputs.Environment, spec.Repository.URL, spec.Repository.Branch)
	outputs, namespace, err := p.OutputsClient()
	if err != nil {
		return refuse(runcontract.CodePublish, err)
	}
	work, err := os.MkdirTemp("", "scaffold-")
	if err != nil {
		return refuse(runcontract.CodeInternal, fmt.Errorf("make a folder for the clone: %w", err))
	}
	defer func() {
		if err := os.RemoveAll(work); err != nil {
			log.Printf("warning: %v", err)
		}
	}()
	w := &world{process: p, spec: spec, flags: f, credentials: credentials, redactor: redactor, log: log, dir: work}
	defer func() {
		if err := w.close(); err != nil {
			log.Printf("warning: %v", err)
		}
	}()
	result := scaffold.Run(ctx, scaffold.Config{
		Spec: spec,
		Log:  log,
		Publisher: publish.New(publish.Config{
			Secrets:            outputs,
			Name:               runcontract.OutputsSecretName(spec.Kind, spec.ID),
			Namespace:          namespace,
			Labels:             publish.Labels(spec.Kind, spec.ID, spec.Inputs.Environment),
			TerminationMessage: f.terminationMessage,
			Redactor:           redactor,
			Warn:               func(format string, args ...any) { log.Printf("warning: "+format, args...) },
		}),
		Remote:           w.remote,
		Target:           w.target,
		Platform:         platform.Tree(),
		RegistryPassword: credentials.registryPassword,
		DigestKey:        credentials.digestKey,
		Hide:             redactor.Add,
		Version:          runner.Version(),
	})
	if result.Outcome == runcontract.OutcomeSucceeded {
		return runcontract.ExitOK
	}
	return result.ErrorCode.Exit()
}

// credentials are the files of the credential Secret.
type credentials struct {
	dir              string
	kubeconfig       []byte
	registryPassword redact.Secret
	digestKey        redact.Secret
	sshKey           redact.Secret // empty: none
	signingKey       redact.Secret // empty: none
	gitToken         redact.Secret // empty: none
	// secrets are all of them, and what is secret inside of them.
	secrets []string
}

// readCredentials reads what every run has, and what some have.
func readCredentials(dir string) (*credentials, error) {
	c := &credentials{dir: dir}
	read := func(name string, must bool) (redact.Secret, error) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, os.ErrNotExist) && !must:
			return "", nil
		case err != nil:
			return "", fmt.Errorf("read the credential: %w", err)
		}
		c.secrets = append(c.secrets, string(data))
		return redact.Secret(data), nil
	}
	var errs [6]error
	var kubeconfig redact.Secret
	kubeconfig, errs[0] = read(runcontract.CredentialKubeconfigFile, true)
	c.registryPassword, errs[1] = read(runcontract.CredentialRegistryPasswordFile, true)
	c.digestKey, errs[2] = read(runcontract.CredentialDigestKeyFile, true)
	c.gitToken, errs[3] = read(runcontract.CredentialGitTokenFile, false)
	c.sshKey, errs[4] = read(runcontract.CredentialSSHKeyFile, false)
	c.signingKey, errs[5] = read(runcontract.CredentialSigningKeyFile, false)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	c.kubeconfig = []byte(kubeconfig.Reveal())
	inside, err := secretsInside(dir, c.kubeconfig)
	c.secrets = append(c.secrets, inside...)
	return c, err
}

// check says which file is missing that the spec wants.
func (c *credentials) check(s runcontract.ScaffoldSpec) error {
	var problems []error
	want := func(wanted bool, have redact.Secret, name string) {
		if wanted && have == "" {
			problems = append(problems, fmt.Errorf("the credential has no file %s, which the run spec wants", name))
		}
	}
	want(s.Repository.Auth == runcontract.RepositoryAuthToken, c.gitToken, runcontract.CredentialGitTokenFile)
	want(s.Repository.Auth == runcontract.RepositoryAuthSSH, c.sshKey, runcontract.CredentialSSHKeyFile)
	want(s.Repository.Signed, c.signingKey, runcontract.CredentialSigningKeyFile)
	return errors.Join(problems...)
}
