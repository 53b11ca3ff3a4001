package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim"
)

// TestUserGuide runs the guide's commands in the order in which they stand there.
func TestUserGuide(t *testing.T) {
	for part, program := range map[skip.Part]string{skip.Kubectl: "kubectl", skip.AWSCLI: "aws", skip.Curl: "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			skip.Missing(t, part, "the user guide's commands need it")
		}
	}
	root, err := sim.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join(root, "docs", "user-guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```bash\n(.*?)```").FindAllSubmatch(guide, -1)
	if len(blocks) < 5 {
		t.Fatalf("the guide has %d blocks of commands", len(blocks))
	}
	var script strings.Builder
	script.WriteString("set -euo pipefail\nPATH=$BIN:$PATH\n") // kubeopera is there
	for _, block := range blocks {
		script.Write(block[1])
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	cmd.Dir = t.TempDir()
	fleet := launch(t, "guide", 1, 1)
	machines, err := yaml.Marshal([]api.Machine{fleet.Direct(0, api.RoleControlPlane), fleet.Direct(1, api.RoleWorker)})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(cmd.Dir, "fleet.yaml")
	if err := os.WriteFile(list, machines, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "URL="+platform.ClusterProvisioner.URL(), "KEY="+platform.ClusterProvisioner.Key(), "CREDENTIAL="+platform.Credential,
		"SCAFFOLDER_URL="+platform.GitOpsScaffolder.URL(), "SCAFFOLDER_KEY="+platform.GitOpsScaffolder.Key(),
		"SSH_CREDENTIAL="+fleet.Credential, "MACHINES="+list, "BIN="+filepath.Join(root, "bin"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "kube-system") {
		t.Errorf("kubectl did not list the namespaces:\n%s", out)
	}
}
