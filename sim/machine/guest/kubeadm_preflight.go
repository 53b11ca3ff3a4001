package guest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kubeopera/platform/sim/machine/systemd"
)

// preflightError lists what is wrong with the machine.
type preflightError struct{ problems []string }

func (e *preflightError) Error() string {
	return "error execution phase preflight: [preflight] Some fatal errors occurred:\n\t" + strings.Join(e.problems, "\n\t") +
		"\n[preflight] If you know what you are doing, you can make a check non-fatal with `--ignore-preflight-errors=...`" +
		"\nTo see the stack trace of this error execute with --v=5 or higher"
}

// check is a preflight check by the name that makes it non-fatal.
type check struct {
	name    string
	problem string // empty: fine
}

// preflight looks at the machine as kubeadm does before it changes anything.
func (k *kubeadmCall) preflight(ctx context.Context, controlPlane, joining bool) error {
	k.io.printf("[preflight] Running pre-flight checks\n")
	checks := k.commonChecks(ctx)
	if controlPlane {
		var settings Settings
		if err := ask(ctx, PathSettings, struct{}{}, &settings); err != nil {
			return err
		}
		if settings.CPUs > 0 && settings.CPUs < 2 {
			checks = append(checks, check{"NumCPU", fmt.Sprintf("the number of available CPUs %d is less than the required 2", settings.CPUs)})
		}
		if settings.MemoryMiB > 0 && settings.MemoryMiB < 1700 {
			checks = append(checks, check{"Mem", fmt.Sprintf("the system RAM (%d MB) is less than the minimum 1700 MB", settings.MemoryMiB)})
		}
		for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
			checks = append(checks, absent(kubernetesDir+"/manifests/"+name+".yaml"))
		}
		checks = append(checks, empty("/var/lib/etcd"))
	}
	if joining {
		checks = append(checks, absent(kubernetesDir+"/kubelet.conf"), absent(kubernetesDir+"/bootstrap-kubelet.conf"))
		if !controlPlane {
			checks = append(checks, empty(kubernetesDir+"/manifests"), absent(pkiDir+"/ca.crt"))
		}
	}
	ignored := strings.Split(strings.ToLower(k.flag("ignore-preflight-errors", "")), ",")
	ignored = append(ignored, k.config.init.NodeRegistration.IgnoreErrors...)
	ignored = append(ignored, k.config.join.NodeRegistration.IgnoreErrors...)
	var problems []string
	for _, c := range checks {
		switch {
		case c.problem == "":
		case slices.Contains(ignored, "all") || slices.Contains(ignored, strings.ToLower(c.name)):
			k.io.errorf("\t[WARNING %s]: %s\n", c.name, c.problem)
		default:
			problems = append(problems, fmt.Sprintf("[ERROR %s]: %s", c.name, c.problem))
		}
	}
	if len(problems) > 0 {
		return &preflightError{problems: problems}
	}
	return nil
}

func (k *kubeadmCall) commonChecks(ctx context.Context) []check {
	checks := []check{{name: "FileContent--proc-sys-net-ipv4-ip_forward"}}
	if content, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); err != nil || strings.TrimSpace(string(content)) != "1" {
		checks[0].problem = "/proc/sys/net/ipv4/ip_forward contents are not set to 1"
	}
	if _, err := os.Stat(criFile); err != nil {
		checks = append(checks, check{"CRI", "could not connect to the container runtime: failed to create new CRI runtime service: validate service connection: " +
			"validate CRI v1 runtime API for endpoint \"unix://" + containerdSocket + "\": rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService"})
	}
	if _, err := os.Stat("/usr/bin/conntrack"); err != nil {
		checks = append(checks, check{"FileExisting-conntrack", "conntrack not found in system path"})
	}
	if _, err := os.Stat("/usr/bin/kubelet"); err != nil {
		checks = append(checks, check{"FileExisting-kubelet", "kubelet not found in system path"})
	}
	if code, err := systemd.Call(ctx, managerSocket, []string{"is-active", "-q", "kubelet"}, new(strings.Builder), new(strings.Builder)); err == nil && code == 0 {
		checks = append(checks, check{"Port-10250", "Port 10250 is in use"})
	}
	return checks
}

func absent(path string) check {
	c := check{name: "FileAvailable-" + strings.ReplaceAll(path, "/", "-")}
	if _, err := os.Stat(path); err == nil {
		c.problem = path + " already exists"
	}
	return c
}

func empty(path string) check {
	c := check{name: "DirAvailable-" + strings.ReplaceAll(path, "/", "-")}
	if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
		c.problem = path + " is not empty"
	}
	return c
}

// service calls systemctl.
func service(ctx context.Context, args ...string) error {
	var output strings.Builder
	code, err := systemd.Call(ctx, managerSocket, args, &output, &output)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("systemctl %s: %s", strings.Join(args, " "), strings.TrimSpace(output.String()))
	}
	return nil
}
