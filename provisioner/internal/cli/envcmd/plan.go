package envcmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/shared/provisioner"
)

func (c *commands) plan() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plan -f FILE [--machines FILE]",
		Aliases: []string{"dryrun"},
		Short:   "Show which scripts apply would run on which machines, in which order",
		Long: `Show which scripts apply would run on which machines, in which order, on machines that
have nothing yet. It connects to no machine; what is wrong with the files is said
all at once. A cluster's machines may be left out.`,
		Example: `  kubeopera env plan -f environment.yaml --machines machines.yaml`,
		Args:    runcmd.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
	}
	var f targetFlags
	f.add(cmd)
	format := output.Flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		t, err := f.read(cmd.Context(), c.session.Input(), c.session.Terminal)
		if err != nil {
			return err
		}
		return output.Print(c.session.Terminal.Out, *format, planResult(t.plan))
	}
	return cmd
}

// stage is one of the plan for programs.
type stage struct {
	Phase    string   `json:"phase"`
	Nodes    []string `json:"nodes"`
	Parallel int      `json:"parallel"`
	Scripts  []script `json:"scripts"`
}

type script struct {
	Name           string `json:"name"`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty"`
	SHA256         string `json:"sha256,omitempty"`
	Reboots        bool   `json:"reboots,omitempty"`
}

// some names a few nodes and counts the others.
func some(nodes []string) string {
	const most = 3
	if len(nodes) <= most {
		return strings.Join(nodes, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(nodes[:most], ", "), len(nodes)-most)
}

func planResult(p provisioner.Plan) output.Result {
	r := output.Result{Rows: [][]string{{"stage", "phase", "script", "nodes", "at a time", "timeout", "sha256"}}}
	stages := []stage{}
	for i, s := range p.Stages {
		out := stage{Phase: s.Phase, Nodes: s.Nodes, Parallel: s.Parallel, Scripts: []script{}}
		for _, sc := range s.Scripts {
			out.Scripts = append(out.Scripts, script{Name: sc.Name, TimeoutSeconds: int(sc.Timeout.Seconds()), SHA256: sc.Digest, Reboots: sc.Reboots})
			timeout := ""
			if sc.Timeout > 0 {
				timeout = sc.Timeout.String()
			}
			name := sc.Name
			if sc.Reboots {
				name += " (may reboot)"
			}
			r.Names = append(r.Names, sc.Name)
			r.Rows = append(r.Rows, []string{strconv.Itoa(i + 1), s.Phase, name, some(s.Nodes), strconv.Itoa(s.Parallel), timeout, sc.Digest[:min(len(sc.Digest), 12)]})
		}
		stages = append(stages, out)
	}
	r.Value = struct {
		Stages   []stage  `json:"stages"`
		Warnings []string `json:"warnings,omitempty"`
	}{stages, p.Warnings}
	return r
}
