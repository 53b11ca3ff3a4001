package main

import (
	"slices"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/pidone"
)

const initHelp = `terraform-runner init -- COMMAND [ARGUMENT...]

Runs COMMAND the way a container's first process must: SIGTERM and SIGINT are
passed on to COMMAND alone, orphaned processes are reaped, and when COMMAND has
ended, whatever it left running is killed. The exit code is COMMAND's, or 128
plus the signal that ended it; 126 and 127 if it cannot be run or found.
`

func initCommand(args []string, p process) runcontract.ExitCode {
	separator := slices.Index(args, "--")
	switch {
	case separator == 0 && len(args) > 1:
		code, err := pidone.Run(args[1:], p.environ)
		if err != nil {
			p.complain("terraform-runner init: %v\n", err)
		}
		return runcontract.ExitCode(code)
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-help" || args[0] == "-h"):
		p.print(initHelp)
		return runcontract.ExitOK
	}
	p.complain("%s", initHelp)
	return exitUsage
}
