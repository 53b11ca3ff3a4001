package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli"
	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/session"
	"github.com/kubeopera/platform/shared/runner/runnertest"
)

func guide(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "cli.md"))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// TestDocumentedCommandsWork runs the guide's blocks as one script.
func TestDocumentedCommandsWork(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllStringSubmatch(guide(t), -1) {
		script.WriteString(block[1])
	}
	if script.Len() == 0 {
		t.Fatal("the guide has no commands")
	}
	f := newFakeAPI(t)
	t.Cleanup(f.server.Close)
	g := newFakeScaffolder()
	t.Cleanup(g.server.Close)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir = t.TempDir()
	cmd.Env = []string{searchPath(t), runnertest.NoExitSleep, "HOME=" + cmd.Dir, "KUBEOPERA_URL=" + f.url(), "KUBEOPERA_API_KEY=" + apiKey, "KUBEOPERA_SCAFFOLDER_URL=" + g.url(), "KUBEOPERA_SCAFFOLDER_API_KEY=" + scaffolderAPIKey}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := strings.Count(f.requests(), "build-4711"); n > 0 || strings.Count(f.requests(), "POST /api/v1/provisions {") != 4 {
		t.Errorf("asked\n%s", f.requests())
	}
	if strings.Count(g.requests(), "POST /api/v1/scaffolds {") != 2 {
		t.Errorf("asked\n%s", g.requests())
	}
}

// TestTheGuideIsComplete: it has every command and every exit code.
func TestTheGuideIsComplete(t *testing.T) {
	t.Parallel()
	text := guide(t)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if path := strings.TrimPrefix(cmd.CommandPath(), "kubeopera "); !cmd.HasSubCommands() && !strings.Contains(text, "`"+path) {
			t.Errorf("no command %s", path)
		}
		if cmd.Short == "" || !cmd.HasSubCommands() && cmd.Name() != "version" && cmd.Example == "" {
			t.Errorf("%s: no help or no example", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(cli.New(&session.Session{}, "devel"))
	for _, code := range []exit.Code{
		exit.OK, exit.Failed, exit.Usage, exit.RunFailed, exit.RunCancelled, exit.NotFinished, exit.NotFound, exit.Unauthorized, exit.Unavailable, exit.Conflict, exit.Interrupted,
	} {
		if !strings.Contains(text, fmt.Sprintf("\n| %d |", code)) {
			t.Errorf("no exit code %d", code)
		}
	}
}
