package verify

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/internal/kustomize"
	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

const fluxGroup = "kustomize.toolkit.fluxcd.io"

// dependents wait for infrastructure.
var dependents = []gitopsenv.Layer{gitopsenv.LayerDatabase, gitopsenv.LayerCertManagerConfig, gitopsenv.LayerApps}

// render builds every layer that Flux is told of, and checks their order.
func (v *verifier) render() {
	v.layers = map[string][]manifest.Object{}
	var err error
	if v.builder, err = kustomize.New(v.Environment.Tree); err != nil {
		v.unbuilt("", err)
		return
	}
	sync, err := v.builder.Build(v.folder)
	if err != nil {
		v.unbuilt(v.folder, err)
		return
	}
	known := map[string]manifest.Object{}
	for _, o := range sync {
		if o.Is(fluxGroup, "Kustomization") {
			known[o.Name] = o
		}
		if strings.HasPrefix(o.Kind, "Helm") || o.Kind == "Deployment" && o.Namespace != "flux-system" {
			v.addf(RuleLayers, v.folder, "%s would be applied outside of every layer", o)
		}
	}
	v.order(known)
	for _, name := range sortedKeys(known) {
		dir, _ := manifest.Get[string](known[name].Fields, "spec", "path")
		dir = path.Clean(strings.TrimPrefix(dir, "./"))
		if name == "flux-system" || dir == v.folder {
			continue
		}
		objects, err := v.builder.Build(dir)
		if err != nil {
			v.unbuilt(dir, err)
			continue
		}
		v.layers[name] = objects
	}
	v.twice()
}

// unbuilt reports a folder that does not render. What is missing then is no
// finding of its own.
func (v *verifier) unbuilt(dir string, err error) {
	v.broken = true
	v.addf(RuleBuild, dir, "%s", err)
}

// order checks the Kustomizations that apply the layers.
func (v *verifier) order(known map[string]manifest.Object) {
	file := v.folder + "/flux-system/gotk-sync.yaml"
	for _, layer := range append([]gitopsenv.Layer{gitopsenv.LayerInfrastructure}, dependents...) {
		o, ok := known[string(layer)]
		if !ok {
			v.addf(RuleLayers, file, "there is no Kustomization %s", layer)
			continue
		}
		if prune, _ := manifest.Get[string](o.Fields, "metadata", "annotations", fluxGroup+"/prune"); prune != "disabled" {
			v.addf(RuleLayers, file, "Kustomization %s can be pruned: `flux bootstrap` would take the layer away", layer)
		}
		dir, _ := manifest.Get[string](o.Fields, "spec", "path")
		if want := v.folder + "/" + string(layer); path.Clean(dir) != want {
			v.addf(RuleLayers, file, "Kustomization %s applies another folder than %s", layer, want)
		}
		var needs []string
		for _, dependency := range manifest.Items(o.Fields, "spec", "dependsOn") {
			name, _ := dependency["name"].(string)
			needs = append(needs, name)
			if _, ok := known[name]; !ok {
				v.addf(RuleLayers, file, "Kustomization %s waits for %s, which is not there", layer, name)
			}
		}
		switch wait, _ := manifest.Get[bool](o.Fields, "spec", "wait"); {
		case layer == gitopsenv.LayerInfrastructure && len(needs) > 0:
			v.addf(RuleLayers, file, "infrastructure must wait for nothing")
		case layer == gitopsenv.LayerInfrastructure && !wait:
			v.addf(RuleLayers, file, "infrastructure must wait for what it installs: else the others start too early")
		case layer != gitopsenv.LayerInfrastructure && !slices.Contains(needs, string(gitopsenv.LayerInfrastructure)):
			v.addf(RuleLayers, file, "Kustomization %s must wait for infrastructure", layer)
		}
	}
}

// twice finds objects that two layers apply: they would undo each other's work.
func (v *verifier) twice() {
	owner := map[string]string{}
	for _, name := range sortedKeys(v.layers) {
		for _, o := range v.layers[name] {
			if other, ok := owner[o.ID()]; ok && other != name {
				v.addf(RuleLayers, v.folder, "%s is in %s and in %s", o, other, name)
			}
			owner[o.ID()] = name
		}
	}
	// A kind that a release of this very layer installs: applying the layer fails
	// as a whole before the release is there.
	for _, o := range v.layers[string(gitopsenv.LayerInfrastructure)] {
		switch o.Group() {
		case "bitnami.com", "cert-manager.io", "acme.cert-manager.io", "postgresql.cnpg.io", "rabbitmq.com":
			v.addf(RuleLayers, v.folder+"/"+string(gitopsenv.LayerInfrastructure), "%s is of a kind that this layer installs: it belongs to a layer that waits", o)
		}
	}
}

// hosts holds rendered Ingresses against the hosts that were asked for.
func (v *verifier) hosts() {
	if v.Environment.Hosts == nil || v.builder == nil {
		return
	}
	requested := map[string]bool{}
	for name, hosts := range v.Environment.Hosts {
		for _, host := range hosts {
			requested[host] = true
		}
		if want := v.in.Services[name].Hostname; want != "" && !slices.Contains(hosts, want) {
			v.addf(RuleHosts, "apps/"+name, "the hostname that was asked for is not among those that were generated")
		}
	}
	for name := range v.in.Services {
		if !v.builderHas("apps/" + name + "/overlays/" + v.in.Environment) {
			v.addf(RuleHosts, "apps/"+name, "there is no overlay for %s", v.in.Environment)
		}
	}
	for _, name := range sortedKeys(v.Environment.Hosts) {
		dir := "apps/" + name + "/overlays/" + v.in.Environment
		objects, err := v.builder.Build(dir)
		if err != nil {
			v.addf(RuleBuild, dir, "%s", err)
			continue
		}
		var rendered []string
		for _, o := range objects {
			rendered = append(rendered, gitopsenv.IngressHosts(o)...)
		}
		slices.Sort(rendered)
		rendered = slices.Compact(rendered)
		if !slices.Equal(rendered, v.Environment.Hosts[name]) {
			v.addf(RuleHosts, dir, "renders the hosts %s, not %s: does the patch's target match?", list(rendered), list(v.Environment.Hosts[name]))
		}
	}
	rendered := map[string]bool{}
	for _, name := range sortedKeys(v.layers) {
		for _, o := range v.layers[name] {
			for _, host := range gitopsenv.IngressHosts(o) {
				rendered[host] = true
				if !requested[host] && host != v.in.Domain && !strings.HasSuffix(host, "."+v.in.Domain) {
					v.addf(RuleHosts, v.folder+"/"+name, "%s has the host %s, outside the domain", o, host)
				}
			}
		}
	}
	for _, host := range sortedKeys(requested) {
		if !rendered[host] && !v.broken {
			v.addf(RuleHosts, v.folder+"/"+string(gitopsenv.LayerApps), "no Ingress has the host %s", host)
		}
	}
}

func (v *verifier) builderHas(dir string) bool {
	for file := range v.Environment.Tree {
		if strings.HasPrefix(file, dir+"/") {
			return true
		}
	}
	return false
}

func list(names []string) string {
	if len(names) == 0 {
		return "(none)"
	}
	return strings.Join(names, ", ")
}

// externalDNS checks what external-dns is told.
func (v *verifier) externalDNS() {
	for _, o := range v.layers[string(gitopsenv.LayerInfrastructure)] {
		domains := gitopsenv.DomainFilters(o)
		if domains == nil && o.Name != "external-dns" {
			continue
		}
		dir := v.folder + "/" + string(gitopsenv.LayerInfrastructure)
		if o.Is("helm.toolkit.fluxcd.io", "HelmRelease") || o.Is("apps", "Deployment") {
			if !slices.Equal(domains, []string{v.in.Domain}) {
				v.addf(RuleExternalDNS, dir, "%s manages %s, not %s", o, list(domains), v.in.Domain)
			}
		}
		if owner, ok := manifest.Get[string](o.Fields, "spec", "values", "txtOwnerId"); ok && owner != gitopsenv.OwnerID(v.in.Environment) {
			v.addf(RuleExternalDNS, dir, "%s owns its records by another environment's id", o)
		}
	}
}

// moved are addresses of chart repositories that have stopped answering, and
// where their charts are.
var moved = [][2]string{
	{"bitnami-labs.github.io/sealed-secrets", "https://bitnami.github.io/sealed-secrets"},
	{"kubernetes-charts.storage.googleapis.com", "their projects' own repositories"},
	{"charts.helm.sh/stable", "their projects' own repositories"},
}

// sources checks where charts come from.
func (v *verifier) sources() {
	for _, name := range sortedKeys(v.layers) {
		for _, o := range v.layers[name] {
			if !o.Is("source.toolkit.fluxcd.io", "HelmRepository") {
				continue
			}
			url, _ := manifest.Get[string](o.Fields, "spec", "url")
			for _, m := range moved {
				if strings.Contains(url, "://"+m[0]) {
					v.addf(RuleSource, v.folder+"/"+name, "%s reads charts from %s, which has stopped answering: they are at %s", o, m[0], m[1])
				}
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
