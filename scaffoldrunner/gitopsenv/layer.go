package gitopsenv

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/internal/kustomize"
	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// sealedFolder is where a layer keeps its sealed secrets, a file for each.
const sealedFolder = "sealed-secrets"

// sealedSecret is a sealed secret of one layer.
type sealedSecret struct {
	secret Secret
	file   string // from the layer's folder
	data   []byte
}

// seal finds the secrets of the development tree and seals their like.
func (g *generator) seal(sealer Sealer) (map[Layer][]sealedSecret, error) {
	var found []*development
	var layers []Layer
	for _, layer := range dependents {
		list, err := g.developmentSecrets(layer)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			found = append(found, d)
			layers = append(layers, layer)
		}
	}
	if err := plan(found, g.in.Registry); err != nil {
		return nil, err
	}
	var requests []SealRequest
	var files []string
	for i, d := range found {
		file := sealedFolder + "/" + cmp.Or(d.object.Namespace, d.secret.Namespace) + "." + d.object.Name + ".yaml"
		files = append(files, file)
		requests = append(requests, SealRequest{
			Secret:        d.secret,
			MetaNamespace: d.object.Namespace,
			MetaName:      d.object.Name,
			Current:       g.repo[g.folder+"/"+string(layers[i])+"/"+file],
		})
		g.secrets = append(g.secrets, d.secret)
	}
	manifests, err := sealer.Seal(requests)
	if err != nil {
		return nil, err
	}
	if len(manifests) != len(requests) {
		return nil, fmt.Errorf("the sealer made %d secrets of %d", len(manifests), len(requests))
	}
	sealed := map[Layer][]sealedSecret{}
	for i, data := range manifests {
		sealed[layers[i]] = append(sealed[layers[i]], sealedSecret{secret: found[i].secret, file: files[i], data: data})
	}
	return sealed, nil
}

// mark is how a Secret is found again after kustomize has given it another name
// or namespace.
const mark = "internal.kubeopera.io/secret"

// developmentSecrets are the Secrets of a layer of the development tree, as
// written and as they are on a cluster.
func (g *generator) developmentSecrets(layer Layer) ([]*development, error) {
	dir := g.devLayer(layer)
	if !g.dev.has(dir) {
		return nil, nil
	}
	marked := maps.Clone(g.dev)
	var found []*development
	for _, file := range g.dev.under(dir).paths() {
		if !manifest.IsYAML(file) || slices.Contains(kustomize.Names, path.Base(file)) {
			continue
		}
		docs := manifest.Split(g.dev[file])
		changed := false
		for i, doc := range docs {
			o, err := manifest.Decode(doc)
			if errors.Is(err, manifest.ErrNoObject) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if !isSecret(o) {
				continue
			}
			d, err := readSecret(o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			index := fmt.Sprint(len(found))
			found = append(found, &d)
			docs[i], err = edit(doc, func(node *kyaml.RNode) (bool, error) {
				return true, node.PipeE(kyaml.SetAnnotation(mark, index))
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			changed = true
		}
		if changed {
			marked[file] = manifest.Join(docs)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	builder, err := kustomize.New(marked)
	if err != nil {
		return nil, err
	}
	objects, err := builder.Build(dir)
	if err != nil {
		return nil, err
	}
	var used []*development
	for _, o := range objects {
		if !isSecret(o) {
			continue
		}
		index, ok := manifest.Get[string](o.Fields, "metadata", "annotations", mark)
		if !ok {
			return nil, fmt.Errorf("%s: %s is made by a generator, or not in that folder, and cannot be sealed", dir, o)
		}
		var i int
		if _, err := fmt.Sscan(index, &i); err != nil {
			return nil, err
		}
		found[i].secret.Namespace, found[i].secret.Name = o.Namespace, o.Name
		if o.Namespace == "" {
			return nil, fmt.Errorf("%s: %s has no namespace", dir, o)
		}
		used = append(used, found[i])
	}
	slices.SortStableFunc(used, func(a, b *development) int {
		return cmp.Or(strings.Compare(a.secret.Namespace, b.secret.Namespace), strings.Compare(a.secret.Name, b.secret.Name))
	})
	return used, nil
}

// registryServers are the registries of a docker configuration in a Secret.
func registryServers(o manifest.Object) []string {
	text, ok := manifest.Get[string](o.Fields, "stringData", ".dockerconfigjson")
	if !ok {
		encoded, _ := manifest.Get[string](o.Fields, "data", ".dockerconfigjson")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil
		}
		text = string(raw)
	}
	var config struct {
		Auths map[string]any `json:"auths"`
	}
	if json.Unmarshal([]byte(text), &config) != nil {
		return nil
	}
	return sortedKeys(config.Auths)
}

// layer copies a layer of the development tree, with what belongs to the
// environment in place of what belongs to development.
func (g *generator) layer(layer Layer, sealed []sealedSecret) error {
	dev, dir := g.devLayer(layer), g.folder+"/"+string(layer)
	part := g.dev.under(dev)
	if len(part) == 0 {
		g.notef("%s is not there: the layer stays empty", dev)
	}
	dropped := map[string]bool{} // from the layer's folder
	var kustomizations []string
	for _, file := range part.paths() {
		rest := strings.TrimPrefix(file, dev+"/")
		switch {
		case slices.Contains(kustomize.Names, path.Base(file)):
			kustomizations = append(kustomizations, rest)
		case manifest.IsYAML(file):
			data, err := g.document(part[file])
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if data == nil {
				dropped[rest] = true
				continue
			}
			g.copy(dir+"/"+rest, data)
		default:
			g.copy(dir+"/"+rest, part[file])
		}
	}
	for file := range g.repo.under(dir + "/" + sealedFolder) {
		delete(g.out, file)
	}
	for _, s := range sealed {
		g.put(dir+"/"+s.file, manifest.ToLF(s.data))
	}
	root := false
	for _, rest := range kustomizations {
		isRoot := path.Dir(rest) == "."
		root = root || isRoot
		data, err := g.layerKustomization(layer, rest, part[dev+"/"+rest], dropped, sealed)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", dev, rest, err)
		}
		g.put(dir+"/"+rest, manifest.ToLF(data))
	}
	if !root {
		// Flux would apply every file; this says the same, and can be edited.
		k := kustomization{APIVersion: kustomizeVersion, Kind: "Kustomization", Resources: []string{}}
		data, err := g.layerKustomization(layer, "kustomization.yaml", marshal(k), dropped, sealed)
		if err != nil {
			return err
		}
		if data, err = g.listAll(data, dir); err != nil {
			return err
		}
		g.put(dir+"/kustomization.yaml", data)
	}
	return nil
}

// listAll adds every manifest of a layer that had no kustomization to the one
// that is made for it.
func (g *generator) listAll(data []byte, dir string) ([]byte, error) {
	var k kustomization
	if err := yaml.Unmarshal(data, &k); err != nil {
		return nil, err
	}
	for _, file := range g.out.under(dir).paths() {
		rest := strings.TrimPrefix(file, dir+"/")
		if manifest.IsYAML(rest) && rest != "kustomization.yaml" && !slices.Contains(k.Resources, rest) {
			k.Resources = append(k.Resources, rest)
		}
	}
	slices.Sort(k.Resources)
	return marshal(k), nil
}

// document is a file of a layer for the environment; nil if nothing of it is
// left.
func (g *generator) document(data []byte) ([]byte, error) {
	docs := manifest.Split(data)
	var kept [][]byte
	changed := false
	for _, doc := range docs {
		o, err := manifest.Decode(doc)
		if err != nil && !errors.Is(err, manifest.ErrNoObject) {
			return nil, err
		}
		if err == nil && isSecret(o) {
			changed = true
			continue
		}
		edited := doc
		if err == nil {
			if edited, err = edit(doc, func(node *kyaml.RNode) (bool, error) { return g.object(o, node) }); err != nil {
				return nil, fmt.Errorf("%s: %w", o, err)
			}
		}
		changed = changed || !bytes.Equal(edited, doc)
		kept = append(kept, edited)
	}
	switch {
	case !changed:
		return data, nil
	case len(kept) == 0:
		return nil, nil
	}
	return manifest.Join(kept), nil
}

// environmentMap is the ConfigMap that tells services about their environment.
const environmentMap = "platform-environment"

// object puts the environment's own values into an object of a layer, and says
// whether it changed anything.
func (g *generator) object(o manifest.Object, node *kyaml.RNode) (bool, error) {
	switch {
	case o.Group() == "cert-manager.io" && (o.Kind == "ClusterIssuer" || o.Kind == "Issuer"):
		return g.issuer(node)
	case o.Is("", "ConfigMap") && o.Name == environmentMap:
		return g.environmentData(node)
	case o.Is("networking.k8s.io", "Ingress"):
		changed := false
		for _, rule := range elements(node, "spec", "rules") {
			if host := lookup(rule, "host"); host != nil {
				c, err := setString(rule, g.move(host.YNode().Value, o.Name), "host")
				if err != nil {
					return false, err
				}
				changed = changed || c
			}
		}
		for _, entry := range elements(node, "spec", "tls") {
			changed = g.moveAll(lookup(entry, "hosts"), o.Name) || changed
		}
		return changed, nil
	}
	return false, nil
}

// moveAll moves every host of a list.
func (g *generator) moveAll(list *kyaml.RNode, name string) bool {
	if list == nil || list.YNode().Kind != kyaml.SequenceNode {
		return false
	}
	changed := false
	for i, n := range list.YNode().Content {
		if host := g.move(n.Value, name); host != n.Value {
			list.YNode().Content[i] = scalar(host).YNode()
			changed = true
		}
	}
	return changed
}

// issuer sets the e-mail address of an ACME issuer, and what its DNS solvers
// know of the development account.
func (g *generator) issuer(node *kyaml.RNode) (bool, error) {
	acme := lookup(node, "spec", "acme")
	if acme == nil {
		return false, nil
	}
	changed, err := setString(acme, g.in.Email, "email")
	if err != nil {
		return false, err
	}
	for _, solver := range elements(acme, "solvers") {
		if route53 := lookup(solver, "dns01", "route53"); route53 != nil {
			c, err := setString(route53, g.in.Region, "region")
			if err != nil {
				return false, err
			}
			changed = changed || c
			for _, field := range []string{"hostedZoneID", "role"} {
				if lookup(route53, field) != nil {
					changed = true
				}
				if err := route53.PipeE(kyaml.Clear(field)); err != nil {
					return false, err
				}
			}
		}
		for _, field := range []string{"dnsZones", "dnsNames"} {
			changed = g.moveAll(lookup(solver, "selector", field), string(LayerCertManagerConfig)) || changed
		}
	}
	return changed, nil
}

// environmentData sets what the ConfigMap has of: ENVIRONMENT, DOMAIN, REGION,
// REGISTRY_SERVER, and <SERVICE>_HOST for every service with one host. The host
// of a service that is not wanted goes.
func (g *generator) environmentData(node *kyaml.RNode) (bool, error) {
	data := lookup(node, "data")
	if data == nil {
		return false, nil
	}
	values := map[string]string{
		"ENVIRONMENT":     g.in.Environment,
		"DOMAIN":          g.in.Domain,
		"REGION":          g.in.Region,
		"EMAIL":           g.in.Email,
		"REGISTRY_SERVER": g.in.Registry.Server,
	}
	changed := false
	for _, name := range g.known {
		key := strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_HOST"
		if hosts := g.hosts[name]; len(hosts) == 1 {
			values[key] = hosts[0]
		} else if lookup(data, key) != nil {
			changed = true
			if err := data.PipeE(kyaml.Clear(key)); err != nil {
				return false, err
			}
		}
	}
	for _, key := range sortedKeys(values) {
		c, err := setString(data, values[key], key)
		if err != nil {
			return false, err
		}
		changed = changed || c
	}
	return changed, nil
}

// layerKustomization is a kustomization file of a layer: without files that had
// nothing but secrets, and, at the layer's root, with the sealed ones, with the
// services that are wanted and with what somebody added to the environment.
func (g *generator) layerKustomization(layer Layer, rest string, data []byte, dropped map[string]bool, sealed []sealedSecret) ([]byte, error) {
	dev := g.devLayer(layer)
	at := path.Dir(rest)
	var current struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(data, &current); err != nil {
		return nil, err
	}
	var resources []string
	add := func(r string) {
		if !slices.Contains(resources, r) {
			resources = append(resources, r)
		}
	}
	for _, r := range current.Resources {
		target := path.Join(dev, at, r)
		if service, ok := serviceOf(target, Development); ok && slices.Contains(g.known, service) {
			if slices.Contains(g.names, service) {
				add(g.relative(layer, at, service))
			}
			continue
		}
		if !dropped[path.Join(at, r)] {
			add(r)
		}
	}
	if at == "." {
		if layer == LayerApps {
			for _, name := range g.names {
				add(g.relative(layer, at, name))
			}
		}
		for _, s := range sealed {
			add(s.file)
		}
		for _, r := range g.additions(layer) {
			add(r)
		}
	}
	if slices.Equal(resources, current.Resources) {
		return data, nil
	}
	return edit(data, func(node *kyaml.RNode) (bool, error) {
		list := &kyaml.Node{Kind: kyaml.SequenceNode}
		for _, r := range resources {
			list.Content = append(list.Content, scalar(r).YNode())
		}
		if len(resources) == 0 {
			list.Style = kyaml.FlowStyle
		}
		return true, set(node, "resources", kyaml.NewRNode(list))
	})
}

// serviceOf is the service whose base, or overlay of an environment, a folder is.
func serviceOf(dir, environment string) (string, bool) {
	rest, ok := strings.CutPrefix(dir, "apps/")
	if !ok {
		return "", false
	}
	service, folder, ok := strings.Cut(rest, "/")
	return service, ok && (folder == "base" || folder == "overlays/"+environment)
}

// relative is the way from a folder of a layer to a service's overlay.
func (g *generator) relative(layer Layer, at, service string) string {
	up := strings.Repeat("../", strings.Count(path.Join(g.folder, string(layer), at), "/")+1)
	return up + "apps/" + service + "/overlays/" + g.in.Environment
}

// additions are the resources of a layer that somebody added to the environment
// and that are there.
func (g *generator) additions(layer Layer) []string {
	dir := g.folder + "/" + string(layer)
	var current struct {
		Resources []string `json:"resources"`
	}
	for _, name := range kustomize.Names {
		if data, ok := g.repo[dir+"/"+name]; ok {
			if yaml.Unmarshal(data, &current) != nil {
				return nil // it is written anew
			}
		}
	}
	copied := map[string]bool{} // objects of files that come from the base
	for file := range g.dev.under(g.devLayer(layer)) {
		for _, o := range g.objects(dir + strings.TrimPrefix(file, g.devLayer(layer))) {
			copied[o.ID()] = true
		}
	}
	var added []string
	for _, r := range current.Resources {
		target := path.Join(dir, r)
		service, isService := serviceOf(target, g.in.Environment)
		switch {
		case strings.HasPrefix(r, sealedFolder+"/"):
		case isService && slices.Contains(g.known, service):
		case g.dev[g.devLayer(layer)+"/"+r] == nil && g.superseded(target, copied):
			delete(g.out, target)
		case g.out[target] != nil, g.out.has(target):
			added = append(added, r)
		}
	}
	return added
}

// superseded says whether all that a file has is in files of the base: the base
// has given it another name.
func (g *generator) superseded(file string, copied map[string]bool) bool {
	objects := g.objects(file)
	return len(objects) > 0 && !slices.ContainsFunc(objects, func(o manifest.Object) bool { return !copied[o.ID()] })
}

// objects are those of a file of the result; none if it is no manifest.
func (g *generator) objects(file string) []manifest.Object {
	if !manifest.IsYAML(file) || slices.Contains(kustomize.Names, path.Base(file)) {
		return nil
	}
	objects, err := manifest.Objects(g.out[file])
	if err != nil {
		return nil // verification reports it
	}
	return objects
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
