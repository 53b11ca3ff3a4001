package provisioner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGraphOrder(t *testing.T) {
	t.Parallel()
	type edges [][]string // a name and what it requires
	for _, test := range []struct {
		name  string
		edges edges
		want  string
		wrong string
	}{
		{name: "nothing", want: ""},
		{name: "independent names stay in order", edges: edges{{"b"}, {"a"}, {"c"}}, want: "b a c"},
		{name: "requirements come first", edges: edges{{"k", "r", "t"}, {"t", "r", "d"}, {"r"}, {"d"}}, want: "r d t k"},
		{name: "requirements add up", edges: edges{{"a", "b"}, {"b"}, {"c"}, {"a", "c"}}, want: "b c a"},
		{name: "a diamond is no cycle", edges: edges{{"a", "b", "c"}, {"b", "d"}, {"c", "d"}, {"d"}}, want: "d b c a"},
		{name: "a cycle", edges: edges{{"x", "a"}, {"a", "b"}, {"b", "c"}, {"c", "a"}}, wrong: "a → b → c → a"},
		{name: "a cycle of one", edges: edges{{"a", "a"}}, wrong: "a → a"},
		{name: "an unknown requirement", edges: edges{{"a", "ghost"}}, wrong: "a requires ghost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var g graph
			for _, e := range test.edges {
				g.add(e[0], e[1:]...)
			}
			got, err := g.order()
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("order() = %v, %v; want an error with %q", got, err, test.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}
