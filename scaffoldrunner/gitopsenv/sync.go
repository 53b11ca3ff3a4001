package gitopsenv

import (
	"errors"
	"fmt"
	"slices"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// fluxKustomization is a Kustomization of Flux: one layer.
type fluxKustomization struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   objectMeta `json:"metadata"`
	Spec       syncSpec   `json:"spec"`
}

type objectMeta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type syncSpec struct {
	DependsOn        []reference   `json:"dependsOn,omitempty"`
	HealthCheckExprs []healthExpr  `json:"healthCheckExprs,omitempty"`
	HealthChecks     []healthCheck `json:"healthChecks,omitempty"`
	Interval         string        `json:"interval"`
	Path             string        `json:"path"`
	Prune            bool          `json:"prune"`
	RetryInterval    string        `json:"retryInterval"`
	SourceRef        sourceRef     `json:"sourceRef"`
	Timeout          string        `json:"timeout"`
	Wait             bool          `json:"wait,omitempty"`
}

type reference struct {
	Name string `json:"name"`
}

type sourceRef struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

type healthCheck struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
}

type healthExpr struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Current    string `json:"current"`
	Failed     string `json:"failed"`
}

const (
	kustomizeGroup = "kustomize.toolkit.fluxcd.io"
	fluxNamespace  = "flux-system"
	sealedVersion  = "bitnami.com/v1alpha1"
)

// layerSync is the Kustomization that applies a layer.
//
// `flux bootstrap` rewrites the file that it is in: pruning is off, so that the
// layers live until the next scaffold writes them again. The timeout is short,
// since waiting for a broken layer holds the next commit up for as long.
func (g *generator) layerSync(layer Layer, sealed []sealedSecret) fluxKustomization {
	k := fluxKustomization{
		APIVersion: kustomizeGroup + "/v1",
		Kind:       "Kustomization",
		Metadata: objectMeta{
			Name:        string(layer),
			Namespace:   fluxNamespace,
			Annotations: map[string]string{kustomizeGroup + "/prune": "disabled"},
		},
		Spec: syncSpec{
			Interval:      "1h0m0s",
			Path:          "./" + g.folder + "/" + string(layer),
			Prune:         true,
			RetryInterval: "2m0s",
			SourceRef:     sourceRef{Kind: "GitRepository", Name: fluxNamespace},
			Timeout:       "5m0s",
		},
	}
	if layer == LayerInfrastructure {
		// Ready means installed, not just applied: others build on its kinds.
		k.Spec.Wait = true
		return k
	}
	k.Spec.DependsOn = []reference{{Name: string(LayerInfrastructure)}}
	for _, s := range sealed {
		k.Spec.HealthChecks = append(k.Spec.HealthChecks, healthCheck{
			APIVersion: sealedVersion, Kind: "SealedSecret", Name: s.secret.Name, Namespace: s.secret.Namespace,
		})
	}
	if len(sealed) > 0 {
		synced := func(status string) string {
			return "has(status.conditions) && status.conditions.exists(c, c.type == 'Synced' && c.status == '" + status + "')"
		}
		k.Spec.HealthCheckExprs = []healthExpr{{
			APIVersion: sealedVersion, Kind: "SealedSecret", Current: synced("True"), Failed: synced("False"),
		}}
	}
	return k
}

// sync writes the layers into flux-system/gotk-sync.yaml, and what leads Flux
// there. Everything else in those files stays. In pass 1, when sealed is nil,
// layers other than infrastructure stay too.
func (g *generator) sync(sealed map[Layer][]sealedSecret) error {
	file := g.folder + "/flux-system/gotk-sync.yaml"
	wanted := map[string][]byte{}
	for _, layer := range append([]Layer{LayerInfrastructure}, dependents...) {
		wanted[string(layer)] = marshal(g.layerSync(layer, sealed[layer]))
	}
	var docs [][]byte
	for _, doc := range manifest.Split(manifest.ToLF(g.repo[file])) {
		o, err := manifest.Decode(doc)
		if err != nil && !errors.Is(err, manifest.ErrNoObject) {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err == nil && o.Is(kustomizeGroup, "Kustomization") && wanted[o.Name] != nil {
			if sealed == nil && o.Name != string(LayerInfrastructure) {
				wanted[o.Name] = doc
			}
			continue
		}
		docs = append(docs, doc)
	}
	for _, layer := range append([]Layer{LayerInfrastructure}, dependents...) {
		docs = append(docs, wanted[string(layer)])
	}
	g.put(file, manifest.Join(docs))

	// Without the outer kustomization Flux would apply the layers' own files at
	// once and in no order.
	if err := g.listed(g.folder+"/kustomization.yaml", "flux-system"); err != nil {
		return err
	}
	return g.listed(g.folder+"/flux-system/kustomization.yaml", "gotk-sync.yaml")
}

// listed makes sure that a kustomization has a resource.
func (g *generator) listed(file, resource string) error {
	data, ok := g.repo[file]
	if !ok {
		g.put(file, marshal(kustomization{APIVersion: kustomizeVersion, Kind: "Kustomization", Resources: []string{resource}}))
		return nil
	}
	edited, err := edit(data, func(node *kyaml.RNode) (bool, error) {
		if slices.ContainsFunc(elements(node, "resources"), func(e *kyaml.RNode) bool { return e.YNode().Value == resource }) {
			return false, nil
		}
		list, err := node.Pipe(kyaml.LookupCreate(kyaml.SequenceNode, "resources"))
		if err != nil {
			return false, err
		}
		list.YNode().Style = 0 // an empty list is written in brackets
		return true, list.PipeE(kyaml.Append(scalar(resource).YNode()))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	g.out[file] = edited
	return nil
}
