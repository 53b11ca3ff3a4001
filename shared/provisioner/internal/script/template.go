package script

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/redact"
)

// Custom runs a script of the user's own, whose text is content, by bash -e. It runs
// once: after it has succeeded, not again until its text or environment changes. If
// it fails so does the step, whatever ContinueOnError says, which is the caller's.
func Custom(template v1alpha1.CustomTemplate, content []byte) (Step, error) {
	if template.Name == "" {
		return Step{}, errors.New("custom template: has no name")
	}
	if template.Timeout < 0 {
		return Step{}, fmt.Errorf("custom template %q: timeout is negative", template.Name)
	}
	timeout := v1alpha1.DefaultTemplateSeconds * time.Second
	if template.Timeout > 0 {
		timeout = time.Duration(template.Timeout) * time.Second
	}
	secrets := map[string]redact.Secret{}
	for name, text := range template.Env {
		if isShellsOwn(name) {
			return Step{}, fmt.Errorf("custom template %q: env: %s is bash's own", template.Name, name)
		}
		secrets[name] = redact.Secret(text)
	}
	input, err := stdin(secrets)
	if err != nil {
		return Step{}, fmt.Errorf("custom template %q: env: %w", template.Name, err)
	}
	id := sha256.Sum256([]byte(template.Name))
	return Step{
		Name: "template " + template.Name, Timeout: timeout + 2*time.Minute, Class: ExitOther, Stdin: input,
	}.with(body{values: []value{
		{name: "TEMPLATE_ID", text: hex.EncodeToString(id[:16])},
		{name: "TEMPLATE_NAME", text: template.Name},
		{name: "TEMPLATE_TIMEOUT", text: strconv.Itoa(int(timeout / time.Second))},
		{name: "TEMPLATE_CONTENT", text: string(content)},
	}, files: []string{"template.sh"}, calls: []string{"run_template"}})
}

// isShellsOwn tells variables that bash does not let be set, or runs itself by.
func isShellsOwn(name string) bool {
	return strings.HasPrefix(name, "BASH") || slices.Contains([]string{"UID", "EUID", "PPID", "SHELLOPTS", "ENV", "PS4", "IFS"}, name)
}
