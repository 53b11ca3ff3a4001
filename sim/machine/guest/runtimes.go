package guest

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	dockerUnit = `[Unit]
Description=Docker Application Container Engine
After=network-online.target containerd.service
Wants=containerd.service

[Service]
ExecStart=/usr/bin/dockerd
ExecStartPost=/bin/sh -c 'until [ -e /run/docker.sock ]; do sleep 0.02; done'
Restart=always

[Install]
WantedBy=multi-user.target
`
	crioUnit = `[Unit]
Description=Container Runtime Interface for OCI (CRI-O)
After=network-online.target

[Service]
ExecStart=/usr/bin/crio
ExecStartPost=/bin/sh -c 'until [ -e /run/crio/crio.sock ]; do sleep 0.02; done'
Restart=on-failure

[Install]
WantedBy=multi-user.target
`
	dockerSocket     = "/run/docker.sock"
	criDockerdSocket = "/run/cri-dockerd.sock"
	crioSocket       = "/run/crio/crio.sock"
	criDockerdTag    = "0.3.24"
)

// docker knows what tells its version.
func docker(_ context.Context, args []string, io stdio) int {
	version := cmp.Or(packageVersion("docker-ce"), packageVersion("docker"))
	command := strings.Join(args, " ")
	format := ""
	if len(args) > 1 {
		if _, after, ok := strings.Cut(command, "format="); ok {
			format = after
		} else if len(args) > 2 && (args[1] == "--format" || args[1] == "-f") {
			format = args[2]
		}
	}
	switch {
	case command == "--version" || command == "-v":
		io.printf("Docker version %s, build 0000000\n", version)
		return 0
	case len(args) == 0 || !slices.Contains([]string{"version", "info", "ps"}, args[0]):
		io.errorf("docker: the light machine does not have docker %s\n", command)
		return 1
	case !exists(dockerSocket):
		io.errorf("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n")
		return 1
	case format != "":
		io.printf("%s\n", strings.NewReplacer("{{.Server.Version}}", version, "{{.Client.Version}}", version,
			"{{.ServerVersion}}", version, "{{.CgroupDriver}}", "systemd").Replace(format))
	case args[0] == "version":
		io.printf("Client: Docker Engine - Community\n Version: %s\nServer: Docker Engine - Community\n Engine:\n  Version: %s\n", version, version)
	case args[0] == "info":
		io.printf("Server:\n Server Version: %s\n Cgroup Driver: systemd\n", version)
	}
	return 0
}

func dockerd(ctx context.Context, args []string, io stdio) int {
	if slices.Contains(args, "--version") {
		return docker(ctx, []string{"--version"}, io)
	}
	return listenAs(ctx, dockerSocket, io)
}

// criDockerd answers kubelets for Docker.
func criDockerd(ctx context.Context, args []string, io stdio) int {
	if slices.Contains(args, "--version") {
		io.printf("cri-dockerd %s (0000000)\n", criDockerdTag)
		return 0
	}
	if !exists(dockerSocket) {
		io.errorf("level=fatal msg=\"failed to get docker version from dockerd: Cannot connect to the Docker daemon\"\n")
		return 1
	}
	if err := writeFile(criFile, "", 0o600); err != nil {
		io.errorf("%v\n", err)
		return 1
	}
	return listenAs(ctx, criDockerdSocket, io)
}

func crio(ctx context.Context, args []string, io stdio) int {
	if slices.Contains(args, "--version") || slices.Contains(args, "version") {
		io.printf("crio version %s\n", packageVersion("cri-o"))
		return 0
	}
	if err := writeFile(criFile, "", 0o600); err != nil {
		io.errorf("%v\n", err)
		return 1
	}
	return listenAs(ctx, crioSocket, io)
}

// nvidiaCTK makes a runtime's configuration name it.
func nvidiaCTK(_ context.Context, args []string, io stdio) int {
	if slices.Contains(args, "--version") {
		io.printf("NVIDIA Container Toolkit CLI version %s\n", packageVersion("nvidia-container-toolkit"))
		return 0
	}
	if len(args) < 2 || args[0] != "runtime" || args[1] != "configure" {
		io.errorf("nvidia-ctk: the light machine does not have %s\n", strings.Join(args, " "))
		return 1
	}
	for name, path := range map[string]string{
		"containerd": containerdConfig, "docker": "/etc/docker/daemon.json", "crio": "/etc/crio/conf.d/99-nvidia.toml",
	} {
		if !slices.Contains(args, "--runtime="+name) {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			io.errorf("nvidia-ctk: %v\n", err)
			return 1
		}
		if strings.Contains(string(content), "nvidia") {
			return 0
		}
		text := string(content) + "\n# default runtime: nvidia\n"
		if filepath.Ext(path) == ".json" {
			text = `{"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}` + "\n"
		}
		if err := writeFile(path, text, 0o644); err != nil {
			io.errorf("nvidia-ctk: %v\n", err)
			return 1
		}
	}
	return 0
}

// runtimeVersion is what a kubelet finds out of the runtime that answers it.
func runtimeVersion() string {
	switch {
	case exists(crioSocket):
		return "cri-o://" + packageVersion("cri-o")
	case exists(criDockerdSocket):
		return "docker://" + cmp.Or(packageVersion("docker-ce"), packageVersion("docker"))
	}
	return "containerd://" + cmp.Or(packageVersion("containerd.io"), packageVersion("containerd"))
}

// osRelease is a value of /etc/os-release.
func osRelease(key string) string {
	content, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}
