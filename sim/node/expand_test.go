package node

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	values := map[string]string{"NAME": "value", "EMPTY": "", "NESTED": "$(NAME)"}
	get := func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
	tests := []struct{ name, input, want string }{
		{name: "a known name", input: "a $(NAME) b", want: "a value b"},
		{name: "a known name without a value", input: "[$(EMPTY)]", want: "[]"},
		{name: "an unknown name stays", input: "$(OTHER)", want: "$(OTHER)"},
		{name: "escaped", input: "$$(NAME)", want: "$(NAME)"},
		{name: "values are not expanded again", input: "$(NESTED)", want: "$(NAME)"},
		{name: "not closed", input: "$(NAME", want: "$(NAME"},
		{name: "a dollar sign alone", input: "cost: 5$ or $5 $", want: "cost: 5$ or $5 $"},
		{name: "two", input: "$(NAME)$(NAME)", want: "valuevalue"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := expand(tt.input, get); got != tt.want {
				t.Errorf("expand(%q) = %q, want %q", tt.input, got, tt.want)
			}
		})
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "$", "$$", "$(", "$()", "$(A)", "$$(A)", "$(A", "a$(B)c$$$(D)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		none := func(string) (string, bool) { return "", false }
		got := expand(input, none)
		if !strings.Contains(input, "$$") && got != input {
			t.Errorf("without values %q became %q", input, got)
		}
	})
}
