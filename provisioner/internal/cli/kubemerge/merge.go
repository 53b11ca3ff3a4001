// Package kubemerge puts the kubeconfig of a cluster into a file that may hold
// those of others, without losing anything of theirs: not an entry, a field that
// other programs put there, or a comment.
//
// Merge edits the YAML tree and then compares, through client-go's reader, what
// there was with what there is; a file for which that fails is left alone.
package kubemerge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/kubeconfig"
)

// ErrTaken means that the name belongs to another cluster or user.
var ErrTaken = errors.New("the name is taken")

// Options say how to merge.
type Options struct {
	// Name of the context, its cluster and its user; empty for the context's own.
	Name string
	// Overwrite what another cluster has under that name.
	Overwrite bool
	// SetCurrent makes the context the current one, even if there is one.
	SetCurrent bool
}

// Merge gives existing, the content of a kubeconfig file or nothing, with the
// cluster of fresh added or renewed, and the name that it has in there. fresh
// must be fit to be used (kubeconfig.Check). Merging again changes nothing.
func Merge(existing, fresh []byte, o Options) (merged []byte, name string, err error) {
	if _, err := kubeconfig.Check(fresh); err != nil {
		return nil, "", err
	}
	entry, err := kubeconfig.Parse(fresh)
	if err != nil {
		return nil, "", err
	}
	if name = o.Name; name == "" {
		name = entry.CurrentContext
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return nil, "", errors.New("the name of a context is text on one line")
	}
	before, err := clientcmd.Load(existing)
	if err != nil {
		return nil, "", fmt.Errorf("the file that is there is no kubeconfig: %w", err)
	}
	context := entry.Contexts[entry.CurrentContext]
	want := before.DeepCopy()
	if there, fresh := before.Clusters[name], entry.Clusters[context.Cluster]; there == nil || !sameCluster(there, fresh) {
		want.Clusters[name] = fresh // else with what people have set there, such as a proxy
	}
	want.AuthInfos[name] = entry.AuthInfos[context.AuthInfo]
	want.Contexts[name] = renamed(context, before.Contexts[name], name)
	if o.SetCurrent || want.CurrentContext == "" {
		want.CurrentContext = name
	}
	if !o.Overwrite {
		if err := free(before, want, name); err != nil {
			return nil, "", err
		}
	}
	if same(before, want) {
		return existing, name, nil
	}
	merged, err = edit(existing, before, want, name)
	if err != nil {
		return nil, "", err
	}
	after, err := clientcmd.Load(merged)
	if err != nil || !same(after, want) {
		return nil, "", errors.New("the file that is there cannot be edited without changing what is not ours; use another file")
	}
	return merged, name, nil
}

// renamed is a context for the names in the file. It keeps what people have set
// there themselves.
func renamed(context, before *api.Context, name string) *api.Context {
	c := context.DeepCopy()
	if before != nil {
		c = before.DeepCopy()
	}
	c.Cluster, c.AuthInfo = name, name
	return c
}

// free is an error if the name is not new and not that of the same cluster.
func free(before, want *api.Config, name string) error {
	cluster, user, context := before.Clusters[name], before.AuthInfos[name], before.Contexts[name]
	if cluster == nil && user == nil && context == nil {
		return nil
	}
	switch {
	case cluster == nil || user == nil || context == nil:
		return fmt.Errorf("%w: the file has a cluster, user or context %q that is not of this cluster", ErrTaken, name)
	case context.Cluster != name || context.AuthInfo != name:
		return fmt.Errorf("%w: the context %q is one of another cluster or user", ErrTaken, name)
	case !sameCluster(cluster, want.Clusters[name]):
		return fmt.Errorf("%w: the cluster %q in the file is another one (server %s)", ErrTaken, name, cluster.Server)
	}
	for other, c := range before.Contexts {
		if other != name && c.AuthInfo == name && c.Cluster != name {
			return fmt.Errorf("%w: the context %q has the user %q for another cluster", ErrTaken, other, name)
		}
	}
	return nil
}

func sameCluster(a, b *api.Cluster) bool {
	return a.Server == b.Server && bytes.Equal(a.CertificateAuthorityData, b.CertificateAuthorityData)
}

// same compares what client-go reads.
func same(a, b *api.Config) bool {
	for _, c := range []*api.Config{a, b} {
		for _, x := range c.Clusters {
			x.LocationOfOrigin = ""
		}
		for _, x := range c.AuthInfos {
			x.LocationOfOrigin = ""
		}
		for _, x := range c.Contexts {
			x.LocationOfOrigin = ""
		}
	}
	return reflect.DeepEqual(normal(a), normal(b))
}

// normal is a config as it is once written and read: empty and absent are alike.
func normal(c *api.Config) *api.Config {
	data, err := clientcmd.Write(*c)
	if err != nil {
		return c
	}
	again, err := clientcmd.Load(data)
	if err != nil {
		return c
	}
	return again
}

// edit puts what differs under that name, and the current context, into the tree.
func edit(existing []byte, before, want *api.Config, name string) ([]byte, error) {
	ours := api.NewConfig()
	ours.Clusters[name], ours.AuthInfos[name], ours.Contexts[name] = want.Clusters[name], want.AuthInfos[name], want.Contexts[name]
	ours.CurrentContext = want.CurrentContext
	data, err := clientcmd.Write(*ours)
	if err != nil {
		return nil, err
	}
	var add yaml.Node
	if err := yaml.Unmarshal(data, &add); err != nil {
		return nil, err
	}
	tree, err := only(existing)
	if errors.Is(err, errNothing) {
		return append(bytes.TrimLeft(existing, "\n"), data...), nil
	}
	if err != nil {
		return nil, err
	}
	root, from := tree.Content[0], add.Content[0]
	for _, key := range []string{"apiVersion", "kind"} {
		if field(root, key) == nil {
			setField(root, key, field(from, key))
		}
	}
	for list, unchanged := range map[string]bool{
		"clusters": reflect.DeepEqual(before.Clusters[name], want.Clusters[name]),
		"users":    reflect.DeepEqual(before.AuthInfos[name], want.AuthInfos[name]),
		"contexts": reflect.DeepEqual(before.Contexts[name], want.Contexts[name]),
	} {
		if unchanged {
			continue
		}
		if err := setItem(root, list, name, field(from, list).Content[0]); err != nil {
			return nil, err
		}
	}
	if before.CurrentContext != want.CurrentContext {
		setField(root, "current-context", field(from, "current-context"))
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(tree), e.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// errNothing is a file without a document: empty, or comments only.
var errNothing = errors.New("nothing is there")

// only is the tree of a file's one document, a mapping.
func only(data []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var tree, second yaml.Node
	if err := d.Decode(&tree); errors.Is(err, io.EOF) {
		return nil, errNothing
	} else if err != nil {
		return nil, errors.New("the file that is there is no YAML")
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file that is there has several YAML documents, of which Kubernetes clients read one")
	}
	if len(tree.Content) != 1 || tree.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the file that is there is no kubeconfig")
	}
	return &tree, nil
}

// field is a mapping's value.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func setField(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

// setItem replaces the item of that name in a list, or adds it at the end.
func setItem(root *yaml.Node, list, name string, item *yaml.Node) error {
	items := field(root, list)
	if items == nil || items.Kind == yaml.ScalarNode && items.Tag == "!!null" {
		setField(root, list, &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{item}})
		return nil
	}
	if items.Kind != yaml.SequenceNode {
		return fmt.Errorf("%s of the file that is there is no list", list)
	}
	for i, other := range items.Content {
		if n := field(other, "name"); n != nil && n.Value == name {
			items.Content[i] = item
			return nil
		}
	}
	items.Content = append(items.Content, item)
	return nil
}
