package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/internal/kustomize"
	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// Rule is what a finding offends.
type Rule string

// The rules.
const (
	RuleYAML        Rule = "yaml"        // every manifest parses, without duplicate keys
	RuleLayers      Rule = "layers"      // the layers are there, in order, safe from pruning
	RuleBuild       Rule = "build"       // every layer renders
	RuleHosts       Rule = "hosts"       // Ingresses have the hosts that were asked for
	RuleExternalDNS Rule = "externalDNS" // records are made in the domain, under the environment's own id
	RuleSecrets     Rule = "secrets"     // secrets are sealed, all of them, for their own name and namespace
	RulePlaceholder Rule = "placeholder" // nothing is left to be filled in
	RuleBase        Rule = "base"        // the development tree and the bases stay as they are
	RuleDeletion    Rule = "deletion"    // nothing goes that cannot come back
	RuleLeak        Rule = "leak"        // nothing of the development tree's own is left
	RuleSource      Rule = "source"      // charts come from where they still are
)

// Finding is one thing that is wrong.
type Finding struct {
	Rule Rule
	// Path is the file or folder; empty if it is none in particular.
	Path    string
	Message string
}

func (f Finding) String() string {
	if f.Path == "" {
		return f.Message + " (" + string(f.Rule) + ")"
	}
	return f.Path + ": " + f.Message + " (" + string(f.Rule) + ")"
}

// Error is findings as an error.
type Error struct{ Findings []Finding }

func (e *Error) Error() string {
	var lines []string
	for _, f := range e.Findings {
		lines = append(lines, f.String())
	}
	return "the generated tree must not be pushed: " + strings.Join(lines, "; ")
}

// Config says what to verify.
type Config struct {
	// Base is what the environment was generated from; its Repository is the tree
	// before.
	Base gitopsenv.Base
	// Inputs are the inputs that it was generated from.
	Inputs gitopsenv.Inputs
	// Environment is the result, of either pass.
	Environment gitopsenv.Environment
	// Certificate is the fingerprint that sealed secrets must have been sealed
	// for; empty if it is not known.
	Certificate string
	// AllowDeletion allows what RuleDeletion forbids: somebody asked for it.
	AllowDeletion bool
}

// Verify gives an *Error unless the environment is what was meant.
func Verify(c Config) error {
	if findings := Findings(c); len(findings) > 0 {
		return &Error{Findings: findings}
	}
	return nil
}

// Findings are all that is wrong with an environment, sorted by path.
func Findings(c Config) []Finding {
	in, problems := c.Inputs.Normalise()
	if len(problems) > 0 {
		return []Finding{{Rule: RuleYAML, Message: "the inputs are invalid: " + problems[0].Location + " " + problems[0].Message}}
	}
	v := &verifier{Config: c, in: in, folder: gitopsenv.Folder(in.Environment)}
	v.files()
	v.render()
	v.hosts()
	v.externalDNS()
	v.secrets()
	v.placeholders()
	v.deletions()
	v.leaks()
	v.sources()
	slices.SortStableFunc(v.findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(string(a.Rule), string(b.Rule)), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(v.findings)
}

type verifier struct {
	Config
	in       gitopsenv.Inputs
	folder   string
	builder  *kustomize.Builder
	layers   map[string][]manifest.Object // rendered, by name
	broken   bool                         // some layer could not be rendered
	findings []Finding
}

func (v *verifier) addf(rule Rule, path, format string, args ...any) {
	v.findings = append(v.findings, Finding{Rule: rule, Path: path, Message: fmt.Sprintf(format, args...)})
}

// own says whether a file is of this environment alone.
func (v *verifier) own(file string) bool {
	if strings.HasPrefix(file, v.folder+"/") {
		return true
	}
	parts := strings.SplitN(file, "/", 5)
	return len(parts) == 5 && parts[0] == "apps" && parts[2] == "overlays" && parts[3] == v.in.Environment
}

// written are the files that the environment brings: its own, and whatever else
// changed.
func (v *verifier) written() []string {
	files := map[string]bool{}
	for file := range v.Environment.Tree {
		if v.own(file) {
			files[file] = true
		}
	}
	for _, change := range gitopsenv.Changes(v.Base.Repository, v.Environment.Tree) {
		if change.New != nil {
			files[change.Path] = true
		}
	}
	return sortedKeys(files)
}

// files reads every manifest that is written.
func (v *verifier) files() {
	for _, file := range v.written() {
		if !manifest.IsYAML(file) {
			continue
		}
		objects, err := manifest.Objects(v.Environment.Tree[file])
		if err != nil {
			v.addf(RuleYAML, file, "%s", err)
			continue
		}
		for _, o := range objects {
			v.plainSecret(file, o)
		}
	}
	for _, change := range gitopsenv.Changes(v.Base.Repository, v.Environment.Tree) {
		base := strings.HasPrefix(change.Path, "apps/") && strings.Contains(change.Path, "/base/")
		if change.Old != nil && (base || strings.HasPrefix(change.Path, gitopsenv.Folder(gitopsenv.Development)+"/")) {
			v.addf(RuleBase, change.Path, "the base must stay as it is")
		}
	}
}
