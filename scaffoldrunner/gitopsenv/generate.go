package gitopsenv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// Layer is one of the folders that Flux applies in an order.
type Layer string

// The layers. All but the first wait for it.
const (
	LayerInfrastructure    Layer = "infrastructure"
	LayerDatabase          Layer = "database"
	LayerCertManagerConfig Layer = "cert-manager-config"
	LayerApps              Layer = "apps"
)

// dependents are the layers that wait for infrastructure, in the order in which
// they are written and in which passwords get their ids.
var dependents = []Layer{LayerDatabase, LayerCertManagerConfig, LayerApps}

// Base is what an environment is generated from.
type Base struct {
	// Repository is the target repository as it is; see Load.
	Repository Tree
	// Platform stands in for what the repository does not have: clusters/development
	// as a whole, and each apps/<service>/base.
	Platform Tree
}

// Environment is a generated environment.
type Environment struct {
	// Tree is the repository with the environment in it.
	Tree Tree
	// Hosts are the hosts of each service that has any; nil in pass 1.
	Hosts map[string][]string
	// Secrets are the sealed secrets that the environment has to have; nil in
	// pass 1.
	Secrets []Secret
	// Notes say what the base has that was left out, for people.
	Notes []string
}

// Folder is the environment's own folder.
func Folder(environment string) string { return "clusters/" + environment }

// Infrastructure is pass 1: the infrastructure layer, and whatever Flux needs to
// be content with the rest not being there yet. It removes nothing and changes
// nothing that pass 2 wrote.
func Infrastructure(base Base, in Inputs) (Environment, error) {
	g, err := newGenerator(base, in)
	if err != nil {
		return Environment{}, err
	}
	if err := g.infrastructure(); err != nil {
		return Environment{}, err
	}
	for _, layer := range dependents {
		if !g.out.has(g.folder + "/" + string(layer)) {
			g.put(g.folder+"/"+string(layer)+"/kustomization.yaml", marshal(kustomization{
				APIVersion: kustomizeVersion, Kind: "Kustomization", Resources: []string{},
			}))
		}
	}
	if err := g.sync(nil); err != nil {
		return Environment{}, err
	}
	return g.environment(), nil
}

// Complete is pass 2: the whole environment. What pass 1 writes is written again
// where it is not as it should be.
func Complete(base Base, in Inputs, sealer Sealer) (Environment, error) {
	g, err := newGenerator(base, in)
	if err != nil {
		return Environment{}, err
	}
	if g.in.Registry == (Registry{}) {
		return Environment{}, &InvalidError{Problems: []string{"registry is missing"}}
	}
	if sealer == nil {
		return Environment{}, errors.New("a complete environment has secrets: there must be a sealer")
	}
	if err := g.infrastructure(); err != nil {
		return Environment{}, err
	}
	if err := g.services(); err != nil {
		return Environment{}, err
	}
	sealed, err := g.seal(sealer)
	if err != nil {
		return Environment{}, err
	}
	for _, layer := range dependents {
		if err := g.layer(layer, sealed[layer]); err != nil {
			return Environment{}, err
		}
	}
	if err := g.sync(sealed); err != nil {
		return Environment{}, err
	}
	return g.environment(), nil
}

// generator makes one environment.
type generator struct {
	in   Inputs
	repo Tree // as it is
	dev  Tree // clusters/development, wherever it comes from, and apps
	out  Tree // the result so far

	folder  string   // clusters/<environment>
	crlf    bool     // what the repository's files end their lines with
	domains []string // of the development tree, which hosts are moved out of
	names   []string // of the services wanted, sorted
	known   []string // of all services in the base, sorted

	hosts   map[string][]string
	secrets []Secret
	notes   []string
}

// InvalidError is for inputs that cannot be generated from: they have been
// checked by Normalise, or name services or hosts that the base does not have.
type InvalidError struct{ Problems []string }

func (e *InvalidError) Error() string { return "invalid inputs: " + strings.Join(e.Problems, "; ") }

func newGenerator(base Base, in Inputs) (*generator, error) {
	in, problems := in.Normalise()
	if len(problems) > 0 {
		e := &InvalidError{}
		for _, p := range problems {
			e.Problems = append(e.Problems, p.Location+" "+p.Message)
		}
		return nil, e
	}
	g := &generator{
		in:     in,
		repo:   base.Repository,
		dev:    Tree{},
		out:    maps.Clone(base.Repository),
		folder: Folder(in.Environment),
		crlf:   mostlyCRLF(base.Repository),
	}
	if g.out == nil {
		g.out = Tree{}
	}
	g.chooseBase(base)
	if !g.dev.has(g.devLayer(LayerInfrastructure)) {
		return nil, fmt.Errorf("neither the repository nor the platform has a %s", g.devLayer(LayerInfrastructure))
	}
	if len(g.known) == 0 {
		return nil, errors.New("neither the repository nor the platform has an apps/*/base")
	}
	g.names = g.known
	if in.Services != nil {
		g.names = slices.Sorted(maps.Keys(in.Services))
		for _, name := range g.names {
			if !slices.Contains(g.known, name) {
				return nil, &InvalidError{Problems: []string{fmt.Sprintf("services has one that the base does not have: it has %s", strings.Join(g.known, ", "))}}
			}
		}
	}
	g.domains = g.developmentDomains()
	return g, nil
}

// chooseBase fills dev and known.
func (g *generator) chooseBase(base Base) {
	dev := Folder(Development)
	own := base.Repository.has(dev)
	source := base.Platform
	if own {
		source = base.Repository
	}
	maps.Copy(g.dev, source.under(dev))
	for _, name := range source.folders("apps") {
		if source.has(appBase(name)) {
			g.known = append(g.known, name)
		}
		maps.Copy(g.dev, source.under("apps/"+name))
	}
	if own {
		return
	}
	// A base that the repository has is its own, edits and all.
	for _, name := range g.known {
		if base.Repository.has(appBase(name)) {
			maps.DeleteFunc(g.dev, func(file string, _ []byte) bool { return strings.HasPrefix(file, appBase(name)+"/") })
			maps.Copy(g.dev, base.Repository.under(appBase(name)))
		}
	}
}

func appBase(service string) string { return "apps/" + service + "/base" }

func (g *generator) devLayer(layer Layer) string { return Folder(Development) + "/" + string(layer) }

func (g *generator) environment() Environment {
	return Environment{Tree: g.out, Hosts: g.hosts, Secrets: g.secrets, Notes: g.notes}
}

func (g *generator) notef(format string, args ...any) {
	g.notes = append(g.notes, fmt.Sprintf(format, args...))
}

// put writes a file that is made here. data has line endings of one byte; what
// is written has those of the file that is there, or else the repository's.
func (g *generator) put(file string, data []byte) {
	old, exists := g.repo[file]
	crlf := g.crlf
	if exists && len(old) > 0 {
		crlf = manifest.CRLF(old)
	}
	if crlf {
		data = manifest.ToCRLF(data)
	}
	g.out[file] = data
}

// copy writes a file of the base. Only its line endings may become others, where
// the repository has a preference.
func (g *generator) copy(file string, data []byte) {
	if bytes.IndexByte(data, 0) >= 0 { // not text
		g.out[file] = data
		return
	}
	g.put(file, manifest.ToLF(data))
}

// mostlyCRLF says what most manifests of a repository end their lines with.
func mostlyCRLF(tree Tree) bool {
	balance := 0
	for file, data := range tree {
		switch {
		case !manifest.IsYAML(file):
		case manifest.CRLF(data):
			balance++
		default:
			balance--
		}
	}
	return balance > 0
}

// infrastructure copies the infrastructure layer byte for byte, but for
// external-dns, and writes what is around the layers.
func (g *generator) infrastructure() error {
	dev := g.devLayer(LayerInfrastructure)
	found := false
	layer := g.dev.under(dev)
	for _, file := range layer.paths() {
		data := layer[file]
		if manifest.IsYAML(file) {
			edited, is, err := g.externalDNS(data)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			found = found || is
			data = edited
		}
		g.out[g.folder+"/"+string(LayerInfrastructure)+strings.TrimPrefix(file, dev)] = data
	}
	if !found {
		g.notef("%s has no external-dns: nothing points the domain at the cluster", dev)
	}
	for _, name := range g.dev.folders(Folder(Development)) {
		if name != "flux-system" && name != string(LayerInfrastructure) && !slices.Contains(dependents, Layer(name)) {
			g.notef("%s/%s is no layer that is generated", Folder(Development), name)
		}
	}
	return nil
}

// kustomization is a kustomization file that is made here.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Images     []image  `json:"images,omitempty"`
	Kind       string   `json:"kind"`
	Patches    []patch  `json:"patches,omitempty"`
	Resources  []string `json:"resources"`
}

type image struct {
	Name    string `json:"name"`
	NewName string `json:"newName"`
}

type patch struct {
	Path   string      `json:"path"`
	Target patchTarget `json:"target"`
}

type patchTarget struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
}

const kustomizeVersion = "kustomize.config.k8s.io/v1beta1"
