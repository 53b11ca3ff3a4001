package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubeopera/platform/sim/sandbox"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// plan says what a run of the container sees and does. An error is one of the
// pod's or of something that it refers to, in the kubelet's words.
func (c *container) plan(ctx context.Context, image Image) (sandbox.Container, error) {
	env, err := c.environment(ctx, image)
	if err != nil {
		return sandbox.Container{}, err
	}
	mounts, err := c.mounts(image, env)
	if err != nil {
		return sandbox.Container{}, err
	}
	plan := sandbox.Container{
		Root:     c.worker.node.rootDir(),
		Hostname: c.worker.hostname(),
		Mounts:   mounts,
		Dir:      image.WorkingDir,
		Args:     c.command(image, env),
		Env:      env.list(),
	}
	if c.spec.WorkingDir != "" {
		plan.Dir = c.spec.WorkingDir
	}
	if s := c.spec.SecurityContext; s != nil {
		plan.ReadOnlyRoot = s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem
		plan.NoNewPrivileges = s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation
	}
	return plan, nil
}

// command combines the image's and the pod's, and fills in variables.
func (c *container) command(image Image, env *environment) []string {
	entrypoint, args := image.Entrypoint, image.Command
	if len(c.spec.Command) > 0 {
		entrypoint, args = c.spec.Command, nil
	}
	if len(c.spec.Args) > 0 {
		args = c.spec.Args
	}
	var words []string
	for _, word := range slices.Concat(entrypoint, args) {
		words = append(words, expand(word, env.get))
	}
	return words
}

// mounts are the image's paths, the files that a runtime provides, and the pod's
// volumes; outer ones first.
func (c *container) mounts(image Image, env *environment) ([]sandbox.Mount, error) {
	byTarget := map[string]sandbox.Mount{}
	set := func(source, target string, readOnly bool) {
		target = filepath.Clean("/" + target)
		byTarget[target] = sandbox.Mount{Source: source, Target: target, ReadOnly: readOnly}
	}
	readOnlyRoot := c.spec.SecurityContext != nil && c.spec.SecurityContext.ReadOnlyRootFilesystem != nil &&
		*c.spec.SecurityContext.ReadOnlyRootFilesystem
	for name := range c.worker.etcFiles() {
		set(filepath.Join(c.worker.dir(), "etc", name), "/etc/"+name, readOnlyRoot)
	}
	for target, source := range image.Binds {
		set(source, target, true)
	}
	messagePath := c.spec.TerminationMessagePath
	if messagePath == "" {
		messagePath = corev1.TerminationMessagePathDefault
	}
	if err := os.MkdirAll(filepath.Dir(c.messageFile()), 0o700); err != nil {
		return nil, err
	}
	set(c.messageFile(), messagePath, false)
	for _, m := range c.spec.VolumeMounts {
		source, readOnly, err := c.volumeMount(m, env)
		if err != nil {
			return nil, err
		}
		set(source, m.MountPath, readOnly)
	}

	mounts := make([]sandbox.Mount, 0, len(byTarget))
	for _, m := range byTarget {
		mounts = append(mounts, m)
	}
	slices.SortFunc(mounts, func(a, b sandbox.Mount) int {
		if d := strings.Count(a.Target, "/") - strings.Count(b.Target, "/"); d != 0 {
			return d
		}
		return strings.Compare(a.Target, b.Target)
	})
	return mounts, nil
}

// volumeMount finds what of a volume a container sees.
func (c *container) volumeMount(m corev1.VolumeMount, env *environment) (source string, readOnly bool, err error) {
	index := slices.IndexFunc(c.worker.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if index < 0 {
		return "", false, fmt.Errorf("volume %q of mount %s does not exist", m.Name, m.MountPath)
	}
	volume := c.worker.pod.Spec.Volumes[index]
	source = c.worker.volumePath(volume)
	// What the API server keeps is the API server's to change.
	readOnly = m.ReadOnly || volume.EmptyDir == nil && volume.HostPath == nil
	sub := m.SubPath
	if m.SubPathExpr != "" {
		sub = expand(m.SubPathExpr, env.get)
	}
	if sub == "" {
		return source, readOnly, nil
	}
	if !filepath.IsLocal(sub) {
		return "", false, fmt.Errorf("subPath %q of mount %s leaves the volume", sub, m.MountPath)
	}
	source = filepath.Join(source, sub)
	if _, err := os.Stat(source); err != nil && !readOnly {
		// As the kubelet does: a directory, if there is nothing.
		if err := os.MkdirAll(source, 0o750); err != nil {
			return "", false, fmt.Errorf("failed to create subPath directory for volumeMount %q of container %q", m.Name, c.spec.Name)
		}
	}
	return source, readOnly, nil
}

// hostname of the pod's containers.
func (w *worker) hostname() string {
	if w.pod.Spec.Hostname != "" {
		return w.pod.Spec.Hostname
	}
	return w.name
}

// etcFiles are what a kubelet, a runtime and about every image provide.
func (w *worker) etcFiles() map[string]string {
	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n::1 localhost\n" + w.ip + " " + w.hostname() + "\n")
	for _, alias := range w.pod.Spec.HostAliases {
		hosts.WriteString(alias.IP + " " + strings.Join(alias.Hostnames, " ") + "\n")
	}
	files := map[string]string{ //nolint:gosec // no password in this passwd
		"hosts":    hosts.String(),
		"hostname": w.hostname() + "\n",
		"passwd":   "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":    "root:x:0:\nnogroup:x:65534:\n",
	}
	if resolver, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		files["resolv.conf"] = string(resolver)
	}
	return files
}

// writeEtcFiles writes them into the pod's directory.
func (w *worker) writeEtcFiles() error {
	dir := filepath.Join(w.dir(), "etc")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range w.etcFiles() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
