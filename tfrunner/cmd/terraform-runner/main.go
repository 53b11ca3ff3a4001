// Command terraform-runner is what the Job of a provisioning run executes: as
// process 1, as the init container that clones the modules repository, and as
// the container that runs Terraform and publishes what it made.
package main

import (
	"os"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
)

const usage = `terraform-runner runs Terraform for one provisioning run.

Usage:
  terraform-runner init -- COMMAND [ARGUMENT...]
  terraform-runner clone [flags]
  terraform-runner run [flags]
  terraform-runner version

Commands:
  init      run COMMAND as a container's first process does: pass signals on to
            it alone, reap orphans, end with its exit code, leave nothing behind
  clone     clone the modules repository at a pinned ref (init container)
  run       carry out the run that the mounted run.json describes
  version   print the version

"terraform-runner COMMAND --help" explains a command, its environment variables
and its exit codes.
`

func main() {
	os.Exit(int(command(os.Args[1:], runner.Process{
		Name:    "terraform-runner",
		Getenv:  os.Getenv,
		Setenv:  os.Setenv,
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
	})))
}

func command(args []string, p runner.Process) runcontract.ExitCode {
	return p.Dispatch(args, usage, map[string]runner.Command{"clone": cloneCommand, "run": runCommand, gitHelper: credentialCommand})
}
