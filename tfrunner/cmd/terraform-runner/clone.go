package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/runlog"
	"github.com/kubeopera/platform/tfrunner/internal/clone"
)

const cloneHelp = `terraform-runner clone [flags]

Clones the modules repository at a pinned ref, for the init container of a run.

Environment:
  MODULES_REPOSITORY_URL   https, http, ssh or file URL without a credential
  MODULES_REPOSITORY_REF   branch, tag or commit
  ENVIRONMENT              the environment, which the repository must not have yet

Exit codes: 65 invalid configuration, 66 the repository has the environment
already, 67 the clone failed, 77 interrupted.

Flags:
`

// gitHelper is the command that git itself calls.
const gitHelper = "git-credential"

func cloneCommand(args []string, p runner.Process) runcontract.ExitCode {
	flags := flag.NewFlagSet("clone", flag.ContinueOnError)
	dir := flags.String("dir", runcontract.ModulesDir, "folder to clone into; it is emptied first")
	caFile := flags.String("ca-file", filepath.Join(runcontract.ModulesCADir, runcontract.ModulesCAFile), "CA bundle of the repository's server, if it exists")
	authDir := flags.String("auth-dir", runcontract.ModulesAuthDir, "folder with the files username and password, if the repository needs them")
	message := flags.String("termination-message", runcontract.TerminationMessagePath, "file for the container's termination message")
	if code, done := p.Parse(flags, cloneHelp, args); done {
		return code
	}
	ctx, stop := runner.Interruptible()
	defer stop()

	redactor := redact.New(clone.Secrets(*authDir)...)
	log := runlog.New(p.Stdout, redactor)
	defer log.Close()

	result := runcontract.Result{Phase: api.PhaseCloning}
	self, err := os.Executable()
	if err == nil {
		var commit string
		log.Printf("cloning %s at %s", p.Getenv("MODULES_REPOSITORY_URL"), p.Getenv("MODULES_REPOSITORY_REF"))
		commit, err = clone.Clone(ctx, clone.Config{
			URL:               p.Getenv("MODULES_REPOSITORY_URL"),
			Ref:               p.Getenv("MODULES_REPOSITORY_REF"),
			Environment:       p.Getenv("ENVIRONMENT"),
			Dir:               *dir,
			CAFile:            *caFile,
			AuthDir:           *authDir,
			CredentialCommand: []string{self, gitHelper, "--auth-dir=" + *authDir, "--url=" + p.Getenv("MODULES_REPOSITORY_URL")},
			Getenv:            p.Getenv,
			Redactor:          redactor,
			Log:               log.Printf,
		})
		result.Message = "modules at commit " + commit
	}
	code := runcontract.ExitOK
	if err != nil {
		result = cloneFailure(ctx, err)
		code = result.ErrorCode.Exit()
	}
	log.Printf("%s", result.Message)
	result.Message = redactor.String(result.Message)
	if err := os.WriteFile(*message, result.Compact(), 0o600); err != nil {
		log.Printf("warning: write the termination message: %v", err)
	}
	return code
}

func cloneFailure(ctx context.Context, err error) runcontract.Result {
	result := runcontract.Result{
		Outcome:    runcontract.OutcomeFailed,
		Phase:      api.PhaseCloning,
		ErrorCode:  clone.Code(err),
		Message:    "clone the modules repository: " + err.Error(),
		FinishedAt: time.Now().UTC(),
	}
	if ctx.Err() != nil {
		result.Outcome, result.ErrorCode = runcontract.OutcomeCancelled, runcontract.CodeInterrupted
		result.Message = "interrupted while cloning the modules repository"
	}
	return result
}

// credentialCommand answers git's question for a username and password.
func credentialCommand(args []string, p runner.Process) runcontract.ExitCode {
	flags := flag.NewFlagSet(gitHelper, flag.ContinueOnError)
	authDir := flags.String("auth-dir", "", "folder with the files username and password")
	url := flags.String("url", "", "URL of the repository")
	flags.SetOutput(p.Stderr)
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		return runner.ExitUsage
	}
	if err := clone.Answer(flags.Arg(0), *url, *authDir, p.Stdin, p.Stdout); err != nil {
		p.Complain("terraform-runner: %v\n", err)
		return runcontract.ExitCloneFailed
	}
	return runcontract.ExitOK
}
