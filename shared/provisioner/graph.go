package provisioner

import (
	"fmt"
	"slices"
	"strings"
)

// graph is what must come before what.
type graph struct {
	names []string            // in the order of add
	after map[string][]string // what must come first
}

// add puts name into the graph, after those in after, which may be added later.
func (g *graph) add(name string, after ...string) {
	if g.after == nil {
		g.after = make(map[string][]string)
	}
	if _, known := g.after[name]; !known {
		g.names = append(g.names, name)
	}
	g.after[name] = append(g.after[name], after...)
}

// order is every name after all that it requires, and otherwise in the order of
// add. A cycle is an error that names its members, and so is a requirement that
// was never added.
func (g *graph) order() ([]string, error) {
	const visiting, done = 1, 2
	state := make(map[string]int)
	var out, path []string
	var visit func(name string) error
	visit = func(name string) error {
		switch state[name] {
		case done:
			return nil
		case visiting:
			cycle := append(slices.Clone(path[slices.Index(path, name):]), name)
			return fmt.Errorf("dependencies form a cycle: %s", strings.Join(cycle, " → "))
		}
		required, known := g.after[name]
		if !known {
			return fmt.Errorf("%s requires %s, which is unknown", path[len(path)-1], name)
		}
		state[name] = visiting
		path = append(path, name)
		for _, r := range required {
			if err := visit(r); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		state[name] = done
		out = append(out, name)
		return nil
	}
	for _, name := range g.names {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}
