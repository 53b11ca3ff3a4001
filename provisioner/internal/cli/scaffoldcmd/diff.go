package scaffoldcmd

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
)

func (c *commands) diff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff RUN",
		Short: "Print what a dry run would have changed",
		Long: `Print what a dry run that has succeeded would have changed in the repository, as a
unified diff; nothing if that is nothing. It is coloured on a terminal, and fit for
git apply elsewhere.`,
		Example: runcmd.Example("scaffold diff", ""),
		Args:    c.OneRun, ValidArgsFunction: c.Complete(func(run api.Scaffold) bool { return run.DryRun && run.Status == api.StatusSucceeded }),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := c.Connect("")
		if err != nil {
			return err
		}
		diff, err := s.Diff(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		t := c.session.Terminal
		if t.Colours(t.Out) {
			return writeColoured(t.Out, diff)
		}
		_, err = c.Screen().Write(diff)
		return err
	}
	return cmd
}

// writeColoured writes a unified diff for a terminal, in git's colours. Inside a hunk
// the counts of its heading say which lines are of it: a line that is taken out may
// begin with --.
func writeColoured(w io.Writer, diff []byte) error {
	const bold, red, green, cyan, end = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[0m"
	var out bytes.Buffer
	before, after := 0, 0 // lines of the hunk that are still to come
	for line := range bytes.Lines(diff) {
		text, lineEnd := bytes.CutSuffix(line, []byte("\n"))
		colour := ""
		switch inside := before > 0 || after > 0; {
		case inside && bytes.HasPrefix(text, []byte("-")):
			colour, before = red, before-1
		case inside && bytes.HasPrefix(text, []byte("+")):
			colour, after = green, after-1
		case inside && !bytes.HasPrefix(text, []byte(`\`)):
			before, after = before-1, after-1
		case bytes.HasPrefix(text, []byte("@@ ")):
			colour = cyan
			before, after = hunk(string(text))
		case !bytes.HasPrefix(text, []byte(`\`)):
			colour = bold
		}
		clean := terminal.CleanText(string(text))
		if colour != "" {
			clean = colour + clean + end
		}
		out.WriteString(clean)
		if lineEnd {
			out.WriteByte('\n')
		}
	}
	_, err := out.WriteTo(w)
	return err
}

// hunk is how many lines follow a heading such as "@@ -1,4 +1,5 @@" that are of the
// file before and after.
func hunk(heading string) (before, after int) {
	fields := strings.Fields(heading)
	if len(fields) < 3 {
		return 0, 0
	}
	count := func(field string) int {
		_, n, found := strings.Cut(field, ",")
		if !found {
			return 1
		}
		lines, err := strconv.Atoi(n)
		if err != nil {
			return 0
		}
		return lines
	}
	return count(fields[1]), count(fields[2])
}
