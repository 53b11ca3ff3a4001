// Package kustomize renders folders of a tree in memory, as Flux's
// kustomize-controller does on a cluster: no plugins, no network, and a folder
// without a kustomization file applies every manifest below it.
package kustomize

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// Names are those that kustomize takes for a kustomization file.
var Names = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// Builder renders folders of one tree. It is not safe for concurrent use.
type Builder struct {
	files map[string][]byte
	fsys  filesys.FileSystem
}

// New is a builder for a tree: bytes by path, with slashes and none in front.
func New(files map[string][]byte) (*Builder, error) {
	fsys := filesys.MakeFsInMemory()
	for file, data := range files {
		if err := fsys.WriteFile("/"+file, data); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return &Builder{files: files, fsys: fsys}, nil
}

// Build renders a folder.
func (b *Builder) Build(dir string) (objects []manifest.Object, err error) {
	// kustomize panics on some inputs, and the tree is not ours.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("kustomize build %s: panic: %v", dir, p)
		}
	}()
	if err := b.prepare(dir); err != nil {
		return nil, err
	}
	if err := b.checkLocal(dir, map[string]bool{}); err != nil {
		return nil, err
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone // as Flux does
	resources, err := krusty.MakeKustomizer(options).Run(b.fsys, "/"+dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize build %s: %w", dir, err)
	}
	for _, r := range resources.Resources() {
		fields, err := r.Map()
		if err != nil {
			return nil, fmt.Errorf("kustomize build %s: %w", dir, err)
		}
		o, err := manifest.FromFields(fields)
		if err != nil {
			return nil, fmt.Errorf("kustomize build %s: %w", dir, err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// prepare writes the kustomization that Flux makes up for a folder without one.
func (b *Builder) prepare(dir string) error {
	if file, _ := b.kustomization(dir); file != "" {
		return nil
	}
	var resources []string
	var folders []string // below dir, that have a kustomization of their own
	for _, file := range b.below(dir) {
		if slices.Contains(Names, path.Base(file)) {
			folders = append(folders, path.Dir(file))
		}
	}
	for _, file := range b.below(dir) {
		inFolder := slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(file, f+"/") })
		if inFolder || !manifest.IsYAML(file) {
			continue
		}
		if objects, err := manifest.Objects(b.files[file]); err == nil && len(objects) > 0 {
			resources = append(resources, strings.TrimPrefix(file, dir+"/"))
		}
	}
	for _, f := range folders {
		nested := slices.ContainsFunc(folders, func(g string) bool { return g != f && strings.HasPrefix(f, g+"/") })
		if !nested {
			resources = append(resources, strings.TrimPrefix(f, dir+"/"))
		}
	}
	if len(resources) == 0 {
		return fmt.Errorf("kustomize build %s: no such folder, or no manifest in it", dir)
	}
	data, err := yaml.Marshal(types.Kustomization{
		TypeMeta:  types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Resources: resources,
	})
	if err != nil {
		return err
	}
	return b.fsys.WriteFile("/"+dir+"/kustomization.yaml", data)
}

// below are the files in and below a folder, sorted.
func (b *Builder) below(dir string) []string {
	var files []string
	for file := range b.files {
		if strings.HasPrefix(file, dir+"/") {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

// kustomization is the kustomization file of a folder; empty if it has none.
func (b *Builder) kustomization(dir string) (string, []byte) {
	for _, name := range Names {
		if data, ok := b.files[path.Join(dir, name)]; ok {
			return path.Join(dir, name), data
		}
	}
	return "", nil
}

// ErrRemote is for what kustomize would fetch: it would run git, or wait for a
// network that is not there.
var ErrRemote = errors.New("not in this repository, and nothing is fetched while rendering")

// checkLocal refuses a folder that refers to anything outside the tree, itself
// or through another folder.
func (b *Builder) checkLocal(dir string, seen map[string]bool) error {
	if seen[dir] {
		return nil // a cycle is kustomize's to report
	}
	seen[dir] = true
	file, data := b.kustomization(dir)
	if file == "" {
		return nil
	}
	var k struct {
		Resources  []string `json:"resources"`
		Bases      []string `json:"bases"`
		Components []string `json:"components"`
		HelmCharts []any    `json:"helmCharts"`
	}
	if err := yaml.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(k.HelmCharts) > 0 {
		return fmt.Errorf("%s: helmCharts: %w", file, ErrRemote)
	}
	if err := b.checkFiles(dir, file, data); err != nil {
		return err
	}
	for _, ref := range slices.Concat(k.Resources, k.Bases, k.Components) {
		target := path.Join(dir, ref)
		switch _, isFile := b.files[target]; {
		case isFile:
		case len(b.below(target)) > 0:
			if err := b.checkLocal(target, seen); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: %q: %w", file, ref, ErrRemote)
		}
	}
	return nil
}

// fields are those of a kustomization that name files, which kustomize would
// fetch if they were URLs.
var fields = []string{
	"configurations", "crds", "env", "envs", "files", "generators", "openapi", "patches",
	"patchesJson6902", "patchesStrategicMerge", "replacements", "transformers", "validators",
}

// checkFiles refuses URLs where a kustomization, or a generator or transformer
// that it uses, names a file.
func (b *Builder) checkFiles(dir, file string, data []byte) error {
	var k map[string]any
	if err := yaml.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var check func(value any, key string) error
	check = func(value any, key string) error {
		switch v := value.(type) {
		case map[string]any:
			for name, child := range v {
				if err := check(child, name); err != nil {
					return err
				}
			}
		case []any:
			for _, child := range v {
				if err := check(child, key); err != nil {
					return err
				}
			}
		case string:
			named := key == "path" || slices.Contains(fields, key)
			if named && !strings.Contains(v, "\n") && strings.Contains(v, "://") {
				return fmt.Errorf("%s: %q: %w", file, key, ErrRemote)
			}
			if slices.Contains([]string{"generators", "transformers", "validators"}, key) && bytes.Contains(b.files[path.Join(dir, v)], []byte("://")) {
				return fmt.Errorf("%s: %q: %w", path.Join(dir, v), key, ErrRemote)
			}
		}
		return nil
	}
	return check(k, "")
}
