package script

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

// Kernel installs the kernel of spec.kernel.version beside those that are there, and
// wants a reboot if another one runs. If that does not help it fails, with
// ExitVerification.
func Kernel(env v1alpha1.Environment) (Step, error) {
	version := env.Spec.Kernel.Version
	if version == "" {
		return Step{}, errors.New("spec.kernel.version: is missing")
	}
	if err := checkVersion("spec.kernel.version", version); err != nil {
		return Step{}, err
	}
	return Step{Name: "kernel", Timeout: 30 * time.Minute, Class: ExitDependency, Reboots: true}.with(body{
		values: []value{{name: "KERNEL_VERSION", text: version}}, files: []string{"kernel.sh"}, calls: []string{"wait_for_boot", "ensure_kernel"},
	})
}

// Driver installs the NVIDIA driver, by packages or by a runfile with a sum. On a
// machine without an NVIDIA device it says so and does nothing.
func Driver(env v1alpha1.Environment) (Step, error) {
	d := env.Spec.NVIDIADriver
	var branch, version, address, sum string
	install := "packages"
	switch d.Source {
	case "", v1alpha1.DriverSourcePackage:
		if d.Package != nil {
			branch, version = d.Package.Branch, d.Package.Version
		}
		if version != "" {
			branch = ""
		} else {
			branch = cmp.Or(branch, v1alpha1.DefaultDriverBranch)
		}
	case v1alpha1.DriverSourceRunfile:
		if d.Runfile == nil {
			return Step{}, fmt.Errorf("spec.nvidiaDriver.runfile: is missing")
		}
		install, address = "runfile", d.Runfile.URL
		if err := checkURL("spec.nvidiaDriver.runfile.url", address); err != nil {
			return Step{}, err
		}
		var err error
		if sum, err = checkSum("spec.nvidiaDriver.runfile.checksum", d.Runfile.Checksum); err != nil {
			return Step{}, err
		}
	case v1alpha1.DriverSourceGit:
		return Step{}, fmt.Errorf("spec.nvidiaDriver.source: %w: git has kernel modules only, which are no driver without the rest", ErrUnsupported)
	default:
		return Step{}, fmt.Errorf("spec.nvidiaDriver.source: %w: %q", ErrUnsupported, d.Source)
	}
	for what, text := range map[string]string{"branch": branch, "version": version} {
		if err := checkVersion("spec.nvidiaDriver.package."+what, text); err != nil {
			return Step{}, err
		}
	}
	return Step{Name: "driver", Timeout: 60 * time.Minute, Class: ExitDriver}.with(body{values: []value{
		{name: "DRIVER_INSTALL", text: install},
		{name: "DRIVER_BRANCH", text: branch},
		{name: "DRIVER_VERSION", text: version},
		{name: "RUNFILE_URL", text: address},
		{name: "RUNFILE_SHA256", text: sum},
	}, files: []string{"driver.sh"}, calls: []string{"wait_for_boot", "ensure_driver"}})
}

// ContainerRuntime installs the runtime of spec.containerRuntime from packages; for
// Kubernetes by kubeadm, Docker gets cri-dockerd.
func ContainerRuntime(env v1alpha1.Environment) (Step, error) {
	r := env.Spec.ContainerRuntime
	if r.Source != "" && r.Source != v1alpha1.RuntimeSourcePackage {
		return Step{}, fmt.Errorf("spec.containerRuntime.source: %w: %q; only package is", ErrUnsupported, r.Source)
	}
	name := runtimeName(env)
	wanted := ""
	if r.Package != nil {
		wanted = r.Package.Version
	}
	version, err := packageVersion("spec.containerRuntime.package.version", wanted)
	if err != nil {
		return Step{}, err
	}
	crio := ""
	switch name {
	case v1alpha1.ContainerRuntimeContainerd, v1alpha1.ContainerRuntimeDocker:
	case v1alpha1.ContainerRuntimeCrio:
		if crio, err = crioMinor(env, version); err != nil {
			return Step{}, err
		}
		// Its repository is of one minor version, which is thus pinned in any case.
		version = cmp.Or(version, crio+".*")
	default:
		return Step{}, fmt.Errorf("spec.containerRuntime.name: %w: %q", ErrUnsupported, name)
	}
	needsCRI := ""
	if env.Spec.Kubernetes.Install && installer(env) == v1alpha1.InstallerKubeadm {
		needsCRI = "1"
	}
	return Step{Name: "container runtime", Timeout: 30 * time.Minute, Class: ExitRuntime}.with(body{values: []value{
		{name: "RUNTIME_VERSION", text: version},
		{name: "CRIO_MINOR", text: crio},
		{name: "NEEDS_CRI", text: needsCRI},
	}, files: []string{"runtime.sh"}, calls: []string{"wait_for_boot", "ensure_" + string(name)}})
}

// defaultCRIOMinor is the CRI-O that is taken when nothing says which.
const defaultCRIOMinor = "1.36"

// crioMinor is the minor version of CRI-O: its own, else that of Kubernetes.
func crioMinor(env v1alpha1.Environment, version string) (string, error) {
	if version == "" {
		version = defaultCRIOMinor
		if k := env.Spec.Kubernetes; k.Install && installer(env) == v1alpha1.InstallerKubeadm {
			var err error
			if version, err = kubernetesVersion(env); err != nil {
				return "", err
			}
		}
	}
	parts := strings.SplitN(version[strings.IndexByte(version, ':')+1:], ".", 3)
	if len(parts) < 2 || !numberPattern.MatchString(parts[0]+"."+parts[1]) {
		return "", fmt.Errorf("spec.containerRuntime.package.version: %q has no minor version", version)
	}
	return parts[0] + "." + parts[1], nil
}

// runtimeName is the runtime that there is or is to be.
func runtimeName(env v1alpha1.Environment) v1alpha1.ContainerRuntimeName {
	return cmp.Or(env.Spec.ContainerRuntime.Name, v1alpha1.ContainerRuntimeContainerd)
}

// Toolkit installs the NVIDIA container toolkit and makes it the runtime's default.
func Toolkit(env v1alpha1.Environment) (Step, error) {
	t := env.Spec.NVIDIAContainerToolkit
	if t.Source != "" && t.Source != v1alpha1.CTKSourcePackage {
		return Step{}, fmt.Errorf("spec.nvidiaContainerToolkit.source: %w: %q; only package is", ErrUnsupported, t.Source)
	}
	channel, wanted := "", ""
	if t.Package != nil {
		channel, wanted = t.Package.Channel, t.Package.Version
	}
	channel = cmp.Or(channel, v1alpha1.CTKChannelStable)
	if channel != v1alpha1.CTKChannelStable && channel != v1alpha1.CTKChannelExperimental {
		return Step{}, fmt.Errorf("spec.nvidiaContainerToolkit.package.channel: %w: %q", ErrUnsupported, channel)
	}
	version, err := packageVersion("spec.nvidiaContainerToolkit.package.version", wanted)
	if err != nil {
		return Step{}, err
	}
	runtime := ""
	if env.Spec.ContainerRuntime.Install || env.Spec.ContainerRuntime.Name != "" {
		runtime = string(runtimeName(env))
	}
	cdi := ""
	if t.EnableCDI {
		cdi = "1"
	}
	return Step{Name: "container toolkit", Timeout: 20 * time.Minute, Class: ExitToolkit}.with(body{values: []value{
		{name: "TOOLKIT_CHANNEL", text: channel},
		{name: "TOOLKIT_VERSION", text: version},
		{name: "RUNTIME", text: runtime},
		{name: "ENABLE_CDI", text: cdi},
	}, files: []string{"runtime.sh", "toolkit.sh"}, calls: []string{"wait_for_boot", "ensure_toolkit"}})
}
