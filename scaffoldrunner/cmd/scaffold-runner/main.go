// Command scaffold-runner is what the Job of a scaffolding run executes: as process
// 1, and as the process that generates an environment's Flux tree, seals its secrets
// for the cluster that it is for, and pushes it.
package main

import (
	"os"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
)

const usage = `scaffold-runner carries out one scaffolding run.

Usage:
  scaffold-runner init -- COMMAND [ARGUMENT...]
  scaffold-runner run [flags]
  scaffold-runner version

Commands:
  init      run COMMAND as a container's first process does: pass signals on to
            it alone, reap orphans, end with its exit code, leave nothing behind
  run       carry out the run that the mounted run.json describes
  version   print the version

"scaffold-runner COMMAND --help" explains a command, its environment variables
and its exit codes.
`

func main() {
	os.Exit(int(command(os.Args[1:], runner.Process{
		Name:    "scaffold-runner",
		Getenv:  os.Getenv,
		Setenv:  os.Setenv,
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
	})))
}

func command(args []string, p runner.Process) runcontract.ExitCode {
	return p.Dispatch(args, usage, map[string]runner.Command{"run": runCommand, gitHelper: credentialCommand})
}
