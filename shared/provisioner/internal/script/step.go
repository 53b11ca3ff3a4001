package script

import (
	"bytes"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/redact"
)

// Shebang is the beginning of every script. Its xtrace is taken back at once: it
// would print values.
const Shebang = "#! /usr/bin/env bash\nset -xe\n"

// Exit codes of scripts, as holodeck has them.
const (
	ExitOther        = 1 // a template that failed, or a fault of ours
	ExitInput        = 2 // a value or a machine that cannot be dealt with
	ExitDependency   = 4 // a package, a download or a service that is needed
	ExitVerification = 5 // not what was asked for is there
	ExitDriver       = 10
	ExitRuntime      = 11
	ExitToolkit      = 12
	ExitKubernetes   = 13
)

// ErrUnsupported means that nothing here implements what was asked for.
var ErrUnsupported = errors.New("not supported")

// Step is a script.
type Step struct {
	Name    string
	Body    []byte
	Timeout time.Duration // more than it can take when nothing hangs
	// Stdin hands over the step's secrets: lines NAME=base64. It is not part of Body.
	Stdin []byte
	// Class is the exit code when a command fails of which the script does not know
	// better.
	Class int
	// Query means that standard output is the result, and that nothing but what the
	// result needs is changed.
	Query bool
	// Reboots means that the step may leave RebootMarker behind. After the reboot the
	// same step says whether that has helped.
	Reboots bool
}

// RebootMarker is a file that holds the id of a boot that is to end.
const RebootMarker = "/run/kubeopera/reboot-required"

// Names of secrets.
const (
	tokenName          = "TOKEN"           // a bootstrap token
	certificateKeyName = "CERTIFICATE_KEY" // 64 hexadecimal digits
)

// stdin makes a step's standard input. Names must be those of shell variables,
// values must not hold a NUL byte.
func stdin(secrets map[string]redact.Secret) ([]byte, error) {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if !variableName.MatchString(name) {
			return nil, fmt.Errorf("%q is no name of a variable", name)
		}
		value := secrets[name].Reveal()
		if strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("the value of %s has a NUL byte, which no shell can hold", name)
		}
		fmt.Fprintf(&out, "%s=%s\n", name, base64.StdEncoding.EncodeToString([]byte(value)))
	}
	return out.Bytes(), nil
}

//go:embed *.sh
var fragments embed.FS

// body is what a Step's text is made of.
type body struct {
	values []value
	files  []string // fragments beside those that every script has
	calls  []string // of functions, with their quoted arguments
}

// value is a variable; with list it is an array.
type value struct {
	name string
	text string
	list []string
}

// render makes the text. Its order is: values, functions, main.
func (b body) render(class int) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(Shebang + "{ set +x; } 2>/dev/null\n")
	fmt.Fprintf(&out, "CLASS=%d EXIT_OTHER=%d EXIT_INPUT=%d EXIT_DEPENDENCY=%d EXIT_VERIFY=%d EXIT_DRIVER=%d EXIT_RUNTIME=%d EXIT_TOOLKIT=%d EXIT_KUBERNETES=%d\n",
		class, ExitOther, ExitInput, ExitDependency, ExitVerification, ExitDriver, ExitRuntime, ExitToolkit, ExitKubernetes)
	out.WriteString("CHANGED='' API_SERVER=''\n")
	for _, v := range b.values {
		quoted, err := v.quote()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.ToLower(v.name), err)
		}
		fmt.Fprintf(&out, "%s=%s\n", v.name, quoted)
	}
	for _, name := range append([]string{"preamble.sh", "settings.sh", "host.sh"}, b.files...) {
		text, err := fragments.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out.WriteString("\n")
		out.Write(text)
	}
	out.WriteString("\nmain() {\n")
	for _, call := range b.calls {
		out.WriteString("  " + call + "\n")
	}
	out.WriteString("  exit 0\n}\nmain\n")
	return out.Bytes(), nil
}

func (v value) quote() (string, error) {
	if v.list == nil {
		return Quote(v.text)
	}
	words := make([]string, len(v.list))
	for i, text := range v.list {
		var err error
		if words[i], err = Quote(text); err != nil {
			return "", err
		}
	}
	return "(" + strings.Join(words, " ") + ")", nil
}

// with renders a body into a step.
func (s Step) with(b body) (Step, error) {
	calls := []string{"begin", "identify_host"}
	if s.Query {
		calls[0] = "load_settings"
	}
	b.calls = append(calls, b.calls...)
	var err error
	if s.Body, err = b.render(s.Class); err != nil {
		return Step{}, fmt.Errorf("step %s: %w", s.Name, err)
	}
	return s, nil
}
