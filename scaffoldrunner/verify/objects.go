package verify

import (
	"encoding/base64"
	"regexp"
	"strings"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// plainSecret finds a Secret with something in it.
func (v *verifier) plainSecret(path string, o manifest.Object) {
	if !o.Is("", "Secret") {
		return
	}
	data, _ := o.Fields["data"].(map[string]any)
	stringData, _ := o.Fields["stringData"].(map[string]any)
	if len(data)+len(stringData) > 0 {
		v.addf(RuleSecrets, path, "%s has its data in clear", o)
	}
}

// minSealed is the length of an empty value that is sealed for a key of 2048 bits:
// two bytes of length, the wrapped key, the tag.
const minSealed = 2 + 256 + 16

// secrets checks that what is secret is sealed, and sealed for where it is.
func (v *verifier) secrets() {
	rendered := map[string]bool{}
	for _, layer := range sortedKeys(v.layers) {
		dir := v.folder + "/" + layer
		for _, o := range v.layers[layer] {
			v.plainSecret(dir, o)
			if !o.Is("bitnami.com", "SealedSecret") {
				continue
			}
			rendered[o.Namespace+"/"+o.Name] = true
			v.sealed(dir, o)
		}
	}
	for _, s := range v.Environment.Secrets {
		if !rendered[s.Namespace+"/"+s.Name] && !v.broken {
			v.addf(RuleSecrets, v.folder, "no layer renders the sealed secret %s/%s: it is bound to that name and namespace, and opens under no other", s.Namespace, s.Name)
		}
	}
}

func (v *verifier) sealed(dir string, o manifest.Object) {
	for _, at := range [][]string{{"metadata", "annotations"}, {"spec", "template", "metadata", "annotations"}} {
		annotations, _ := manifest.Get[map[string]any](o.Fields, at...)
		for _, scope := range []string{"cluster-wide", "namespace-wide"} {
			if annotations["sealedsecrets.bitnami.com/"+scope] == "true" {
				v.addf(RuleSecrets, dir, "%s is sealed %s: anybody who can write to the repository could open it under another name", o, scope)
			}
		}
	}
	if data, _ := manifest.Get[map[string]any](o.Fields, "spec", "template", "data"); len(data) > 0 {
		v.addf(RuleSecrets, dir, "%s has template data, which the controller executes", o)
	}
	encrypted, _ := manifest.Get[map[string]any](o.Fields, "spec", "encryptedData")
	if len(encrypted) == 0 {
		v.addf(RuleSecrets, dir, "%s holds nothing", o)
	}
	for key, value := range encrypted {
		text, _ := value.(string)
		if raw, err := base64.StdEncoding.DecodeString(text); err != nil || len(raw) < minSealed {
			v.addf(RuleSecrets, dir, "%s: the value of %s is not a sealed one", o, key)
		}
	}
	if v.Certificate == "" {
		return
	}
	for _, s := range v.Environment.Secrets {
		if s.Namespace != o.Namespace || s.Name != o.Name {
			continue
		}
		if got, _ := manifest.Get[string](o.Fields, "metadata", "annotations", "scaffold.kubeopera.io/certificate-sha256"); got != v.Certificate {
			v.addf(RuleSecrets, dir, "%s is sealed for another controller's certificate", o)
		}
	}
}

var (
	nobodys = regexp.MustCompile(`(?i)[a-z0-9-]\.invalid([^a-z0-9.-]|$)`)
	toFill  = regexp.MustCompile(`(?i)^(<[^<>]+>|\$\{[A-Z0-9_]+\}|.*\b(change[-_]?me|replace[-_]?me|fill[-_]?me[-_]?in)\b.*)$`)
)

// placeholders finds values in what is rendered that somebody was to fill in.
func (v *verifier) placeholders() {
	for _, layer := range sortedKeys(v.layers) {
		for _, o := range v.layers[layer] {
			walk(o.Fields, "", func(at, value string) {
				switch {
				case nobodys.MatchString(value):
					v.addf(RulePlaceholder, v.folder+"/"+layer, "%s: %s is still nobody's name, below .invalid", o, at)
				case !strings.Contains(value, "\n") && toFill.MatchString(value):
					v.addf(RulePlaceholder, v.folder+"/"+layer, "%s: %s is a placeholder", o, at)
				}
			})
		}
	}
}

// walk calls do with every string in a value, and with where it is.
func walk(value any, at string, do func(at, value string)) {
	switch x := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(x) {
			walk(x[key], strings.TrimPrefix(at+"."+key, "."), do)
		}
	case []any:
		for _, element := range x {
			walk(element, at, do)
		}
	case string:
		do(at, x)
	}
}

// deletions finds what would go from the cluster and cannot come back, or takes
// along what cannot.
func (v *verifier) deletions() {
	if v.AllowDeletion || v.broken {
		return
	}
	before, rendered := v.before()
	after := map[string]bool{}
	for _, objects := range v.layers {
		for _, o := range objects {
			after[o.ID()] = true
		}
	}
	for _, o := range v.raw(v.Environment.Tree) {
		// A layer that could not be rendered before is held against files.
		if !rendered || o.Is(fluxGroup, "Kustomization") {
			after[o.ID()] = true
		}
	}
	for _, o := range before {
		if protected(o) && !after[o.ID()] {
			v.addf(RuleDeletion, v.folder, "%s would be deleted: ask for it if that is meant", o)
		}
	}
}

// protected says whether deleting an object loses data, or others' objects.
func protected(o manifest.Object) bool {
	switch o.Group() {
	case "postgresql.cnpg.io", "rabbitmq.com", "apiextensions.k8s.io":
		return true
	}
	switch o.Kind {
	case "SealedSecret", "Namespace", "StatefulSet", "PersistentVolumeClaim", "Secret", "HelmRelease":
		return true
	case "Kustomization":
		return o.Group() == fluxGroup
	}
	return false
}

// before are the objects of the environment in the tree before: rendered, or, if
// it does not render, as they are in files.
func (v *verifier) before() (objects []manifest.Object, rendered bool) {
	old := &verifier{Config: Config{Environment: gitopsenv.Environment{Tree: v.Base.Repository}}, in: v.in, folder: v.folder}
	if !old.builderHas(v.folder) {
		return nil, true
	}
	old.render()
	if old.broken {
		return v.raw(v.Base.Repository), false
	}
	for _, o := range v.raw(v.Base.Repository) {
		if o.Is(fluxGroup, "Kustomization") {
			objects = append(objects, o)
		}
	}
	for _, layer := range old.layers {
		objects = append(objects, layer...)
	}
	return objects, true
}

// raw are the objects in the environment's own files of a tree.
func (v *verifier) raw(tree gitopsenv.Tree) []manifest.Object {
	var objects []manifest.Object
	for file, data := range tree {
		if !v.own(file) || !manifest.IsYAML(file) {
			continue
		}
		list, err := manifest.Objects(data)
		if err != nil {
			continue // reported for the tree after
		}
		for _, o := range list {
			if o.Group() != "kustomize.config.k8s.io" {
				objects = append(objects, o)
			}
		}
	}
	return objects
}
