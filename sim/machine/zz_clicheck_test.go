//go:build clicheck

package machine_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubeopera/platform/sim/machine"
)

func TestCLICheck(t *testing.T) {
	key := newKey(t)
	ms := launchExisting(t, key, machine.ExistingMachine{Name: "control-plane-0"}, machine.ExistingMachine{Name: "worker-0"}, machine.ExistingMachine{Name: "worker-1"})
	dir := t.TempDir()
	env := "apiVersion: holodeck.nvidia.com/v1alpha1\nkind: Environment\nmetadata: {name: acme}\nspec:\n  auth: {privateKey: " + key.file + "}\n  containerRuntime: {install: true, name: containerd}\n  cluster: {controlPlane: {count: 1}, workers: {count: 2}}\n"
	var list strings.Builder
	for i, m := range ms {
		role := "worker"
		if i == 0 {
			role = "control-plane"
		}
		fmt.Fprintf(&list, "- {role: %s, address: %s, port: %d, user: %s, host_key: %q}\n", role, m.Address(), m.Port(), m.User(), strings.TrimSpace(m.HostKeys()[0]))
	}
	e, l, k := filepath.Join(dir, "env.yaml"), filepath.Join(dir, "m.yaml"), filepath.Join(dir, "k")
	os.WriteFile(e, []byte(env), 0o600)
	os.WriteFile(l, []byte(list.String()), 0o600)
	run := func(args ...string) {
		start := time.Now()
		cmd := exec.CommandContext(t.Context(), "/tmp/kubeopera-x", append(args, "-f", e, "--machines", l)...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, err := cmd.CombinedOutput()
		t.Logf("%v: %v after %s\n%s", args, err, time.Since(start), out)
	}
	run("env", "plan")
	run("env", "apply", "--kubeconfig", k)
	run("env", "health")
	run("env", "apply", "-q")
	run("env", "health", "-o", "json")
	run("env", "reset", "--yes", "-v")
	run("env", "health")
	out, err := exec.Command("kubectl", "--kubeconfig", k, "get", "nodes").CombinedOutput()
	t.Logf("%v %s", err, out)
}
