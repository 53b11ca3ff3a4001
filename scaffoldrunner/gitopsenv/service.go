package gitopsenv

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kubeopera/platform/scaffoldrunner/internal/kustomize"
	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// hostnamePatch is the file of a service's overlay that sets its hosts.
const hostnamePatch = "ingress-hostname.yaml"

// services writes the overlay of each service, the bases that the repository
// does not have, and takes away the overlays of services that are not wanted.
func (g *generator) services() error {
	builder, err := kustomize.New(g.dev)
	if err != nil {
		return err
	}
	registries := g.developmentRegistries()
	g.hosts = map[string][]string{}
	owner := map[string]string{}
	for _, name := range g.known {
		overlay := "apps/" + name + "/overlays/" + g.in.Environment
		if !slices.Contains(g.names, name) {
			for file := range g.repo.under(overlay) {
				delete(g.out, file)
			}
			continue
		}
		base := g.dev.under(appBase(name))
		if !g.repo.has(appBase(name)) {
			for file, data := range base {
				g.copy(file, data)
			}
		}
		objects, err := builder.Build(appBase(name))
		if err != nil {
			return err
		}
		patches, err := g.hostnames(name, overlay, objects)
		if err != nil {
			return err
		}
		for _, host := range g.hosts[name] {
			if other := owner[host]; other != "" {
				return &InvalidError{Problems: []string{fmt.Sprintf("services: %s and %s have one hostname", other, name)}}
			}
			owner[host] = name
		}
		g.put(overlay+"/kustomization.yaml", marshal(kustomization{
			APIVersion: kustomizeVersion,
			Kind:       "Kustomization",
			Resources:  []string{"../../base"},
			Images:     g.images(objects, registries),
			Patches:    patches,
		}))
	}
	return nil
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value"`
}

// hostnames writes the patch that sets the hosts of a service's Ingresses.
func (g *generator) hostnames(name, overlay string, objects []manifest.Object) ([]patch, error) {
	var ingresses []manifest.Object
	hosts := map[string]string{} // the environment's by the base's
	for _, o := range objects {
		if !o.Is("networking.k8s.io", "Ingress") {
			continue
		}
		ingresses = append(ingresses, o)
		for _, h := range ingressHosts(o) {
			hosts[h.host] = ""
		}
	}
	wanted := g.in.Services[name].Hostname
	if wanted != "" && len(hosts) != 1 {
		return nil, &InvalidError{Problems: []string{fmt.Sprintf("services.%s.hostname cannot be set: the base of %s has %d hosts", name, name, len(hosts))}}
	}
	for base := range hosts {
		hosts[base] = wanted
		if wanted == "" {
			hosts[base] = g.move(base, name)
		}
		if !slices.Contains(g.hosts[name], hosts[base]) {
			g.hosts[name] = append(g.hosts[name], hosts[base])
		}
	}
	slices.Sort(g.hosts[name])

	var patches []patch
	for i, o := range ingresses {
		file := hostnamePatch
		if i > 0 {
			file = "ingress-hostname-" + o.Name + ".yaml"
		}
		var operations []operation
		for _, h := range ingressHosts(o) {
			operations = append(operations, operation{Op: "replace", Path: h.path, Value: hosts[h.host]})
		}
		if len(operations) == 0 {
			g.notef("Ingress %s of %s names no host: it stays open for every name", o.Name, name)
			continue
		}
		g.put(overlay+"/"+file, marshal(operations))
		patches = append(patches, patch{Path: file, Target: patchTarget{
			Group: o.Group(), Version: strings.TrimPrefix(o.APIVersion, o.Group()+"/"), Kind: o.Kind, Name: o.Name,
		}})
	}
	return patches, nil
}

// ingressHost is a host that an Ingress names, and where.
type ingressHost struct{ path, host string }

// ingressHosts are all places in an Ingress that name a host.
func ingressHosts(o manifest.Object) []ingressHost {
	var hosts []ingressHost
	rules, _ := manifest.Get[[]any](o.Fields, "spec", "rules")
	for i, v := range rules {
		rule, _ := v.(map[string]any)
		if host, ok := rule["host"].(string); ok {
			hosts = append(hosts, ingressHost{"/spec/rules/" + strconv.Itoa(i) + "/host", host})
		}
	}
	tls, _ := manifest.Get[[]any](o.Fields, "spec", "tls")
	for i, v := range tls {
		entry, _ := v.(map[string]any)
		list, _ := entry["hosts"].([]any)
		for j, h := range list {
			if host, ok := h.(string); ok {
				hosts = append(hosts, ingressHost{"/spec/tls/" + strconv.Itoa(i) + "/hosts/" + strconv.Itoa(j), host})
			}
		}
	}
	return hosts
}

// IngressHosts are the hosts that an Ingress names, sorted; nil for any other
// object.
func IngressHosts(o manifest.Object) []string {
	if o.Kind != "Ingress" {
		return nil
	}
	var hosts []string
	for _, h := range ingressHosts(o) {
		hosts = append(hosts, h.host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// move is a host of the base in the environment's domain: what stands before the
// development domain, or before one that is nobody's (x.zone.invalid), stands
// before the new one. Other hosts become the service's name in the domain.
func (g *generator) move(host, service string) string {
	for _, domain := range g.domains {
		if host == domain {
			return g.in.Domain
		}
		if prefix, ok := strings.CutSuffix(host, "."+domain); ok {
			return prefix + "." + g.in.Domain
		}
	}
	if rest, ok := strings.CutSuffix(host, placeholder); ok {
		if prefix, _, ok := cutLast(rest, "."); ok {
			return prefix + "." + g.in.Domain
		}
	}
	return service + "." + g.in.Domain
}

// placeholder is what names end in that are nobody's (RFC 6761).
const placeholder = ".invalid"

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// developmentRegistries are the registries that the development tree logs in at.
func (g *generator) developmentRegistries() []string {
	var servers []string
	for _, layer := range dependents {
		for file, data := range g.dev.under(g.devLayer(layer)) {
			if !manifest.IsYAML(file) {
				continue
			}
			objects, err := manifest.Objects(data)
			if err != nil {
				continue // reported where the file is copied
			}
			for _, o := range objects {
				if isSecret(o) {
					servers = append(servers, registryServers(o)...)
				}
			}
		}
	}
	slices.Sort(servers)
	return slices.Compact(servers)
}

// images are the images of a service that come from the development tree's
// registry, or from nobody's, and now come from the environment's.
func (g *generator) images(objects []manifest.Object, registries []string) []image {
	names := map[string]image{}
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if ref, ok := v["image"].(string); ok {
				server, rest, _ := strings.Cut(ref, "/")
				if rest != "" && server != g.in.Registry.Server && (slices.Contains(registries, server) || strings.HasSuffix(server, placeholder)) {
					repository := server + "/" + repositoryOf(rest)
					names[repository] = image{Name: repository, NewName: g.in.Registry.Server + "/" + repositoryOf(rest)}
				}
			}
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	for _, o := range objects {
		walk(o.Fields)
	}
	var images []image
	for _, name := range sortedKeys(names) {
		images = append(images, names[name])
	}
	return images
}

// repositoryOf is an image reference without tag and digest; the registry has
// been cut off, so that a colon is no port.
func repositoryOf(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	ref, _, _ = strings.Cut(ref, ":")
	return ref
}
