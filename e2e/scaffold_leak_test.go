package e2e

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/e2e/leak"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim/gitops"
)

// scaffoldLeaks looks for every secret that is known by now in what the runs left
// behind. Repositories, databases and files are looked at when all tests have
// ended (package harness).
func scaffoldLeaks(t *testing.T, s *scaffolding, _ *gitops.Target) {
	t.Helper()
	scanner, err := platform.Canaries()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range s.runs {
		scanScaffold(t, scanner, id, s.password)
	}
}

// scanScaffold looks for secrets in what a run left behind, and proves that planted
// would be found.
func scanScaffold(t *testing.T, scanner *leak.Scanner, id, planted string) {
	t.Helper()
	harness.Until(t, "the credential Secret is deleted", func() (bool, error) {
		for _, name := range platform.CredentialSecrets(t) {
			if name == runcontract.CredentialSecretName(runcontract.KindScaffold, id) {
				return false, nil
			}
		}
		return true, nil
	})
	run, err := platform.Scaffolder(t).Scaffold(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	if run.Status != api.StatusCancelled { // its Job is gone, with all that was the Job's
		found = traces(t, runcontract.KindScaffold, id, platform.GitOpsScaffolder)
	}
	if found["the API's answer"], err = yaml.Marshal(run); err != nil {
		t.Fatal(err)
	}
	found["the log"] = []byte(platform.ScaffoldLogs(t, id))
	for where, data := range found {
		if len(data) == 0 {
			t.Errorf("there is nothing of %s of run %s to scan", where, id)
		}
		if err := scanner.Scan(where+" of run "+id, data); err != nil {
			t.Error(err)
		}
		if scanner.Scan(where, append(data, planted...)) == nil {
			t.Errorf("a secret planted in %s is not found", where)
		}
	}
}
