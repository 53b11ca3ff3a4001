package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// mountRetry is the first pause after a failed mount, and doubles up to
	// maxMountRetry: the kubelet's two minutes would only make tests slow.
	mountRetry    = 500 * time.Millisecond
	maxMountRetry = 5 * time.Second
	// tokenLifetime is what kube-apiserver gives a pod that asks for nothing.
	tokenLifetime = 3607
)

// file of a volume.
type file struct {
	content []byte
	mode    os.FileMode
}

// makeVolumes makes all volumes of the pod, however often that fails, and tells
// whether the pod is to go on.
func (w *worker) makeVolumes(ctx context.Context) bool {
	pause := mountRetry
	for {
		if w.stopping(ctx) {
			return false
		}
		err := w.writeEtcFiles()
		for _, volume := range w.pod.Spec.Volumes {
			if problem := w.makeVolume(ctx, volume); problem != nil {
				err = problem
				if ctx.Err() == nil {
					w.event(corev1.EventTypeWarning, "FailedMount",
						fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", volume.Name, problem))
				}
			}
		}
		if err == nil {
			w.mu.Lock()
			w.volumes = true
			w.mu.Unlock()
			w.touch()
			return true
		}
		if !w.pause(ctx, pause) {
			return false
		}
		pause = min(2*pause, maxMountRetry)
	}
}

// volumePath is where a volume is on this machine. What comes from the API
// server is in memory.
func (w *worker) volumePath(v corev1.Volume) string {
	switch {
	case v.HostPath != nil:
		return v.HostPath.Path
	case v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory:
		return filepath.Join(w.dir(), "volumes", v.Name)
	default:
		return filepath.Join(w.memoryDir(), v.Name)
	}
}

func (w *worker) makeVolume(ctx context.Context, v corev1.Volume) error {
	path := w.volumePath(v)
	switch {
	case v.HostPath != nil:
		_, err := os.Stat(path)
		return err
	case v.EmptyDir != nil:
		return os.MkdirAll(path, 0o777)
	}
	files, err := w.volumeFiles(ctx, v)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(path, dataLink)); err == nil {
		return nil // made by an earlier try, in which another volume failed
	}
	return writeVolume(path, files)
}

// volumeFiles gives the content of a volume that comes from the API server.
func (w *worker) volumeFiles(ctx context.Context, v corev1.Volume) (map[string]file, error) {
	switch {
	case v.ConfigMap != nil:
		return w.configMapFiles(ctx, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.DefaultMode, v.ConfigMap.Optional)
	case v.Secret != nil:
		return w.secretFiles(ctx, v.Secret.SecretName, v.Secret.Items, v.Secret.DefaultMode, v.Secret.Optional)
	case v.DownwardAPI != nil:
		return w.downwardFiles(v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		return w.projectedFiles(ctx, v.Projected)
	default:
		return nil, errors.New("this kind of volume is not supported by the simulator")
	}
}

func (w *worker) configMapFiles(ctx context.Context, name string, items []corev1.KeyToPath, mode *int32, optional *bool) (map[string]file, error) {
	data, err := w.configMap(ctx, name, optional)
	if err != nil {
		return nil, err
	}
	return pick(data, items, mode, optional)
}

func (w *worker) secretFiles(ctx context.Context, name string, items []corev1.KeyToPath, mode *int32, optional *bool) (map[string]file, error) {
	data, err := w.secret(ctx, name, optional)
	if err != nil {
		return nil, err
	}
	return pick(data, items, mode, optional)
}

// pick selects and places the keys of an object.
func pick(data map[string][]byte, items []corev1.KeyToPath, mode *int32, optional *bool) (map[string]file, error) {
	files := map[string]file{}
	if len(items) == 0 {
		for key, content := range data {
			files[key] = file{content: content, mode: fileMode(mode, nil)}
		}
		return files, nil
	}
	for _, item := range items {
		content, ok := data[item.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return nil, fmt.Errorf("references non-existent config key: %s", item.Key)
		}
		files[item.Path] = file{content: content, mode: fileMode(mode, item.Mode)}
	}
	return files, nil
}

func fileMode(fallback, own *int32) os.FileMode {
	switch {
	case own != nil:
		return os.FileMode(*own) & os.ModePerm //nolint:gosec // a mode
	case fallback != nil:
		return os.FileMode(*fallback) & os.ModePerm //nolint:gosec // a mode
	default:
		return os.FileMode(corev1.ConfigMapVolumeSourceDefaultMode)
	}
}

func (w *worker) downwardFiles(items []corev1.DownwardAPIVolumeFile, mode *int32) (map[string]file, error) {
	files := map[string]file{}
	for _, item := range items {
		var value string
		var err error
		if item.FieldRef != nil {
			value, err = w.field(item.FieldRef.FieldPath)
		} else if item.ResourceFieldRef != nil {
			value, err = w.resourceField(item.ResourceFieldRef, nil)
		}
		if err != nil {
			return nil, err
		}
		files[item.Path] = file{content: []byte(value), mode: fileMode(mode, item.Mode)}
	}
	return files, nil
}

func (w *worker) projectedFiles(ctx context.Context, v *corev1.ProjectedVolumeSource) (map[string]file, error) {
	files := map[string]file{}
	for _, source := range v.Sources {
		var more map[string]file
		var err error
		switch {
		case source.ConfigMap != nil:
			more, err = w.configMapFiles(ctx, source.ConfigMap.Name, source.ConfigMap.Items, v.DefaultMode, source.ConfigMap.Optional)
		case source.Secret != nil:
			more, err = w.secretFiles(ctx, source.Secret.Name, source.Secret.Items, v.DefaultMode, source.Secret.Optional)
		case source.DownwardAPI != nil:
			more, err = w.downwardFiles(source.DownwardAPI.Items, v.DefaultMode)
		case source.ServiceAccountToken != nil:
			more, err = w.tokenFile(ctx, source.ServiceAccountToken, v.DefaultMode)
		default:
			err = errors.New("this source of a projected volume is not supported by the simulator")
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(files, more)
	}
	return files, nil
}

// tokenFile asks for a token that is valid only while the pod exists.
func (w *worker) tokenFile(ctx context.Context, source *corev1.ServiceAccountTokenProjection, mode *int32) (map[string]file, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: w.name, UID: w.uid},
	}}
	if request.Spec.ExpirationSeconds == nil {
		request.Spec.ExpirationSeconds = new(int64(tokenLifetime))
	}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	account := w.pod.Spec.ServiceAccountName
	token, err := w.node.client.CoreV1().ServiceAccounts(w.namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to fetch token: %w", err)
	}
	return map[string]file{source.Path: {content: []byte(token.Status.Token), mode: fileMode(mode, nil)}}, nil
}

// dataLink is the link by which the kubelet exchanges all files of a volume at once.
const dataLink = "..data"

// writeVolume lays files out as the kubelet does: they are links to files below
// ..data, itself a link to a directory with a name of its own. Programs that walk
// a volume meet these links in production too.
func writeVolume(path string, files map[string]file) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	data, err := os.MkdirTemp(path, time.Now().UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return err
	}
	if err := os.Chmod(data, 0o755); err != nil {
		return err
	}
	links := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("invalid path %q", name)
		}
		target := filepath.Join(data, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, files[name].content, 0o600); err != nil {
			return err
		}
		// Not at creation, which the umask would have a say in.
		if err := os.Chmod(target, files[name].mode); err != nil {
			return err
		}
		first, _, _ := strings.Cut(name, string(filepath.Separator))
		links[first] = true
	}
	if err := os.Symlink(filepath.Base(data), filepath.Join(path, dataLink)); err != nil {
		return err
	}
	for name := range links {
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}
