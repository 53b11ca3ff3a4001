package gitopsenv

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// OwnerID is the id by which external-dns knows its own records: two with one id
// delete each other's.
func OwnerID(environment string) string { return "kubeopera-" + environment }

// isExternalDNS says whether an object runs external-dns.
func isExternalDNS(o manifest.Object) bool {
	switch {
	case o.Is("helm.toolkit.fluxcd.io", "HelmRelease"):
		chart, _ := manifest.Get[string](o.Fields, "spec", "chart", "spec", "chart")
		return chart == "external-dns" || o.Name == "external-dns"
	case o.Is("apps", "Deployment"):
		return o.Name == "external-dns"
	}
	return false
}

// externalDNS points external-dns in a file at the environment's domain and
// region, under its own id. Documents that are not external-dns keep their bytes.
func (g *generator) externalDNS(data []byte) (edited []byte, found bool, err error) {
	docs := manifest.Split(data)
	for i, doc := range docs {
		o, err := manifest.Decode(doc)
		if errors.Is(err, manifest.ErrNoObject) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		if !isExternalDNS(o) {
			continue
		}
		found = true
		if docs[i], err = edit(doc, func(node *kyaml.RNode) (bool, error) {
			if o.Kind == "HelmRelease" {
				return true, g.externalDNSValues(node)
			}
			return true, g.externalDNSContainers(node)
		}); err != nil {
			return nil, false, err
		}
	}
	if !found {
		return data, false, nil
	}
	return manifest.Join(docs), true, nil
}

// roleAnnotation is the IAM role of a service account: the development tree's is
// in another account.
const roleAnnotation = "eks.amazonaws.com/role-arn"

// externalDNSValues sets the values of the chart. The chart of Bitnami has
// another name for the region.
func (g *generator) externalDNSValues(release *kyaml.RNode) error {
	values, err := release.Pipe(kyaml.LookupCreate(kyaml.MappingNode, "spec", "values"))
	if err != nil {
		return err
	}
	filters := kyaml.NewRNode(&kyaml.Node{Kind: kyaml.SequenceNode, Content: []*kyaml.Node{scalar(g.in.Domain).YNode()}})
	if err := set(values, "domainFilters", filters); err != nil {
		return err
	}
	if err := set(values, "txtOwnerId", scalar(OwnerID(g.in.Environment))); err != nil {
		return err
	}
	if aws := lookup(values, "aws"); aws != nil {
		if _, err := setString(aws, g.in.Region, "region"); err != nil {
			return err
		}
		if err := aws.PipeE(kyaml.Clear("assumeRoleArn")); err != nil {
			return err
		}
	}
	for _, field := range []string{"zoneIdFilters", "domainFilter", "excludeDomains"} {
		if err := values.PipeE(kyaml.Clear(field)); err != nil {
			return err
		}
	}
	if annotations := lookup(values, "serviceAccount", "annotations"); annotations != nil {
		if err := annotations.PipeE(kyaml.Clear(roleAnnotation)); err != nil {
			return err
		}
		if n, err := annotations.Fields(); err == nil && len(n) == 0 {
			if err := lookup(values, "serviceAccount").PipeE(kyaml.Clear("annotations")); err != nil {
				return err
			}
		}
	}
	g.arguments(lookup(values, "extraArgs"))
	return g.regionEnv(values)
}

// externalDNSContainers sets the arguments of a plain Deployment.
func (g *generator) externalDNSContainers(deployment *kyaml.RNode) error {
	for _, container := range elements(deployment, "spec", "template", "spec", "containers") {
		args := lookup(container, "args")
		if args == nil {
			continue
		}
		g.arguments(args)
		for _, prefix := range []string{"--domain-filter=", "--txt-owner-id="} {
			if !slices.ContainsFunc(args.YNode().Content, func(n *kyaml.Node) bool { return strings.HasPrefix(n.Value, prefix) }) {
				return errors.New("external-dns has no argument " + prefix)
			}
		}
		if err := g.regionEnv(container); err != nil {
			return err
		}
	}
	return nil
}

var ownArgument = regexp.MustCompile(`^(--domain-filter=|--txt-owner-id=|--zone-id-filter=|--exclude-domains=|--aws-assume-role=)`)

// arguments sets those of external-dns' arguments that are an environment's own,
// and drops those that only the development environment can have.
func (g *generator) arguments(list *kyaml.RNode) {
	if list == nil || list.YNode().Kind != kyaml.SequenceNode {
		return
	}
	var kept []*kyaml.Node
	domain := false
	for _, n := range list.YNode().Content {
		switch ownArgument.FindString(n.Value) {
		case "":
		case "--domain-filter=":
			if domain {
				continue // one of several domains
			}
			domain = true
			n = scalar("--domain-filter=" + g.in.Domain).YNode()
		case "--txt-owner-id=":
			n = scalar("--txt-owner-id=" + OwnerID(g.in.Environment)).YNode()
		default:
			continue
		}
		kept = append(kept, n)
	}
	list.YNode().Content = kept
}

// regionEnv sets the region that the AWS SDK takes from a container's variables.
func (g *generator) regionEnv(parent *kyaml.RNode) error {
	env, err := parent.Pipe(kyaml.LookupCreate(kyaml.SequenceNode, "env"))
	if err != nil {
		return err
	}
	found := false
	list, err := env.Elements()
	if err != nil {
		return err
	}
	for _, e := range list {
		name := lookup(e, "name")
		if name == nil || (name.YNode().Value != "AWS_REGION" && name.YNode().Value != "AWS_DEFAULT_REGION") {
			continue
		}
		found = true
		if err := replaceField(e, "value", scalar(g.in.Region)); err != nil {
			return err
		}
	}
	if found {
		return nil
	}
	e := kyaml.NewMapRNode(nil)
	if err := set(e, "name", scalar("AWS_DEFAULT_REGION")); err != nil {
		return err
	}
	if err := set(e, "value", scalar(g.in.Region)); err != nil {
		return err
	}
	return env.PipeE(kyaml.Append(e.YNode()))
}

// developmentDomains are the domains that external-dns of the development tree
// manages.
func (g *generator) developmentDomains() []string {
	var domains []string
	for file, data := range g.dev.under(g.devLayer(LayerInfrastructure)) {
		if !manifest.IsYAML(file) {
			continue
		}
		objects, err := manifest.Objects(data)
		if err != nil {
			continue // reported where the file is edited
		}
		for _, o := range objects {
			if isExternalDNS(o) {
				domains = append(domains, DomainFilters(o)...)
			}
		}
	}
	slices.Sort(domains)
	return slices.Compact(domains)
}

// DomainFilters are the domains that an object that runs external-dns manages;
// nil for any other object.
func DomainFilters(o manifest.Object) []string {
	if !isExternalDNS(o) {
		return nil
	}
	var domains []string
	filters, _ := manifest.Get[[]any](o.Fields, "spec", "values", "domainFilters")
	extra, _ := manifest.Get[[]any](o.Fields, "spec", "values", "extraArgs")
	for _, v := range filters {
		if s, ok := v.(string); ok {
			domains = append(domains, s)
		}
	}
	for _, container := range manifest.Items(o.Fields, "spec", "template", "spec", "containers") {
		args, _ := manifest.Get[[]any](container, "args")
		extra = append(extra, args...)
	}
	for _, v := range extra {
		if s, ok := v.(string); ok {
			if domain, ok := strings.CutPrefix(s, "--domain-filter="); ok {
				domains = append(domains, domain)
			}
		}
	}
	return domains
}
