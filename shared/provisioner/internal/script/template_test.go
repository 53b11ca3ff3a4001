package script_test

import (
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
)

func TestTemplateRunsOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t, amazon2023)
	run := func(content, value string) result {
		return m.must(script.Custom(v1alpha1.CustomTemplate{Name: "count", Env: map[string]string{"VALUE": value}}, []byte(content)))
	}
	const content = "echo \"$VALUE\" >>\"$SANDBOX/count\"\numask\n"
	if r := run(content, "a"); !strings.Contains(r.stderr, "0022\n") {
		t.Errorf("files that the template makes are not for others:\n%s", r.stderr)
	}
	if r := run(content, "a"); !strings.Contains(r.stderr, "skipped: template count has run before") {
		t.Errorf("it does not say so:\n%s", r.stderr)
	}
	run(content, "b")
	run(content+"\n", "b")
	run(content+"\n", "b")
	if got := m.read("count"); got != "a\nb\nb\n" {
		t.Errorf("ran %q", got)
	}
	if left := m.work(); left != "" {
		t.Errorf("the step has left %s", left)
	}
}

// Whatever a template does, the step ends in its own way.
func TestTemplateThatFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ content, says string }{
		"exit":              {"exit 7\n", "template exit failed with status 7"},
		"exit of bad input": {"exit 2\n", "template exit of bad input failed with status 2"},
		"command":           {"false\necho not here >\"$SANDBOX/on\"\n", "template command failed with status 1"},
		"syntax":            {"if\n", "failed with status 2"},
		"kill":              {"kill -9 $$\n", "was ended"},
		"its shell's trap":  {"trap - EXIT; set +e; kill $PPID; sleep 1; exit 3\n", "failed with status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, ubuntu2404)
			s, err := script.Custom(v1alpha1.CustomTemplate{Name: name, ContinueOnError: true}, []byte(test.content))
			m.fails(script.ExitOther, test.says, s, err)
			if m.exists("on") {
				t.Error("the template went on after a command that failed")
			}
			m.fails(script.ExitOther, test.says, s, err) // it counts as not run
		})
	}
}

func TestTemplateHasATimeLimit(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	// Without the limit it would wait for ever.
	s, err := script.Custom(v1alpha1.CustomTemplate{Name: "slow", Timeout: 1}, []byte("mkfifo \"$SANDBOX/fifo\"\n: <\"$SANDBOX/fifo\"\n"))
	m.fails(script.ExitOther, "template slow was ended after 1 s", s, err)
}

func TestBashsOwnVariablesAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UID", "BASH_ENV", "SHELLOPTS", "IFS"} {
		if _, err := script.Custom(v1alpha1.CustomTemplate{Name: "t", Env: map[string]string{name: "x"}}, nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestTwoStepsAtOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	m.write("root/etc/kubeopera/bootstrap.override", m.read("root/etc/kubeopera/bootstrap.override")+"KUBEOPERA_LOCK_SECONDS=0\n")
	inner, err := script.ContainerRuntime(environment(nil))
	if err != nil {
		t.Fatal(err)
	}
	m.write("inner", string(inner.Body))
	m.must(script.Custom(v1alpha1.CustomTemplate{Name: "outer"}, []byte("code=0; bash \"$SANDBOX/inner\" || code=$?; test $code = 4\n")))
}
