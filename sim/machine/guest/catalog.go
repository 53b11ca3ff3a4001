package guest

import "strings"

// aptPackage is a package that brings more than commands of the same name, of
// either kind.
type aptPackage struct {
	commands []string
	// repository must be in a source list, with the version's minor in its place
	// of %s; empty: the distribution's own.
	repository string
	// revision is what the repository's versions end with.
	revision string
	newest   string // when no version is asked for, or one with a wildcard
	units    map[string]string
	files    map[string]string
	start    string // a unit that the installation enables and starts
	kernel   bool   // its version is what the next boot runs
	with     []string
}

// catalog are the packages for Debian's kin, or those that are RPMs.
func catalog(rpm bool) map[string]aptPackage {
	kubernetes, docker, crio, toolkit := "pkgs.k8s.io/core:/stable:/v%s/deb", "download.docker.com/linux/ubuntu", "/isv:/cri-o:/stable:/v%s/deb", "nvidia.github.io/libnvidia-container/stable/deb"
	revision, dockerRevision, dockerEpoch := "-1.1", "-1~ubuntu."+osRelease("VERSION_ID")+"~"+osRelease("VERSION_CODENAME"), "5:"
	if rpm {
		kubernetes, docker, crio, toolkit = "pkgs.k8s.io/core:/stable:/v%s/rpm", "download.docker.com/linux/", "/isv:/cri-o:/stable:/v%s/rpm", "nvidia.github.io/libnvidia-container/stable/rpm"
		revision, dockerRevision, dockerEpoch = "-150500.1.1", "-1.el9", "3:"
	}
	containerd := aptPackage{
		commands: []string{"containerd", "ctr"}, units: map[string]string{"containerd.service": containerdUnit},
		files: map[string]string{containerdConfig: "disabled_plugins = [\"cri\"]\n"},
	}
	engine := aptPackage{commands: []string{"dockerd", "docker"}, units: map[string]string{"docker.service": dockerUnit}}
	packages := map[string]aptPackage{
		"kubeadm": {commands: []string{"kubeadm"}, repository: kubernetes, revision: revision},
		"kubectl": {commands: []string{"kubectl"}, repository: kubernetes, revision: revision},
		"kubelet": {commands: []string{"kubelet"}, repository: kubernetes, revision: revision, units: map[string]string{
			"kubelet.service": kubeletUnit, "kubelet.service.d/10-kubeadm.conf": kubeletDropIn,
		}},
		"cri-tools":      {commands: []string{"crictl"}, repository: kubernetes, revision: revision},
		"kubernetes-cni": {repository: kubernetes, revision: revision, newest: "1.7.1" + revision},
		"containerd.io":  containerd.from(docker, "2.3.2-1"+strings.TrimPrefix(dockerRevision, "-1")),
		"docker-ce":      engine.from(docker, dockerEpoch+"28.5.1"+dockerRevision),
		"docker-ce-cli":  aptPackage{commands: []string{"docker"}}.from(docker, dockerEpoch+"28.5.1"+dockerRevision),
		"cri-o":          {commands: []string{"crio"}, repository: crio, revision: revision, units: map[string]string{"crio.service": crioUnit}},
		"gnupg":          {commands: []string{"gpg"}}, "awscli": {commands: []string{"aws"}},
	}
	for _, name := range []string{"nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"} {
		p := aptPackage{repository: toolkit, newest: "1.18.0-1"}
		if name == "nvidia-container-toolkit" {
			p.commands = []string{"nvidia-ctk"}
		}
		packages[name] = p
	}
	if !rpm {
		started := packages["containerd.io"]
		started.start, started.newest = "containerd.service", "2.3.2-1"
		packages["containerd.io"] = started
		started = packages["docker-ce"]
		started.start = "docker.service"
		packages["docker-ce"] = started
		return packages
	}
	// Amazon's own, and Rocky's names for what is elsewhere called otherwise.
	containerd.newest, engine.newest, engine.with = "2.1.4-1.amzn2023", "25.0.8-1.amzn2023", []string{"containerd"}
	containerd.files = nil
	packages["containerd"], packages["docker"] = containerd, engine
	packages["conntrack-tools"] = aptPackage{commands: []string{"conntrack"}, newest: "1.4.7-2.el9"}
	packages["gnupg2"] = packages["gnupg"]
	packages["kernel"] = aptPackage{kernel: true, newest: "5.14.0-570.12.1.el9_6.x86_64"}
	return packages
}

func (p aptPackage) from(repository, newest string) aptPackage {
	p.repository, p.newest = repository, newest
	return p
}
