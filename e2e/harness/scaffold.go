package harness

import (
	"testing"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// Scaffolder is a client of gitops-scaffolder.
func (p *Platform) Scaffolder(tb testing.TB) *client.Scaffolder {
	tb.Helper()
	c, err := client.NewScaffolder(client.Config{BaseURL: p.GitOpsScaffolder.URL(), APIKey: p.GitOpsScaffolder.Key()})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// StartScaffold starts a run.
func (p *Platform) StartScaffold(tb testing.TB, request api.ScaffoldRequest) api.Scaffold {
	tb.Helper()
	run, err := p.Scaffolder(tb).StartScaffold(tb.Context(), request)
	if err != nil {
		tb.Fatal(err)
	}
	return run
}

// WaitScaffold follows a run to its end.
func (p *Platform) WaitScaffold(tb testing.TB, id string, progress func(api.Scaffold)) api.Scaffold {
	tb.Helper()
	return wait(tb, p.Scaffolder(tb).Wait, id, func(run api.Scaffold) {
		logStatus(tb, run.RunStatus)
		if progress != nil {
			progress(run)
		}
	})
}

// ScaffoldLogs is a run's whole log.
func (p *Platform) ScaffoldLogs(tb testing.TB, id string) string {
	tb.Helper()
	return logs(tb, p.Scaffolder(tb).Logs, id)
}
