package terraform

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/tfrunner/internal/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standIn is a shell script in terraform's place. It answers version itself;
// body is what it does for the other commands, with the command in $1.
func standIn(t *testing.T, body string) Config {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
if [ "$1" = version ]; then echo asked >> "${0%/*}/versions"; echo '{"terraform_version":"1.11.4"}'; exit 0; fi
` + body
	binary := filepath.Join(dir, "terraform")
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	path, _ := os.LookupEnv("PATH")
	return Config{Binary: binary, Dir: work, Env: map[string]string{"PATH": path}, WaitDelay: 10 * time.Second}
}

func initialised(t *testing.T, cfg Config) *Terraform {
	t.Helper()
	tf, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := tf.Init(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return tf
}

const (
	started  = `{"type":"apply_start","@message":"started","hook":{"resource":{"addr":"a"},"action":"create"}}`
	complete = `{"type":"change_summary","@message":"done","changes":{"add":1,"operation":"apply"}}`
	halted   = `{"type":"diagnostic","@message":"Error: halted","diagnostic":{"severity":"error","summary":"execution halted"}}`
)

// interruptOnStart cancels the returned context when the stand-in says that it has started.
func interruptOnStart(t *testing.T, cfg *Config) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cfg.OnEvent = func(e events.Event) {
		if e.Kind == events.KindApplyStart {
			cancel(errors.New("stop"))
		}
	}
	t.Cleanup(func() { cancel(nil) })
	return ctx
}

func TestApply_gets_one_interrupt_and_time(t *testing.T) {
	t.Parallel()
	cfg := standIn(t, `
[ "$1" = apply ] || exit 0
trap 'echo interrupt >> signals' INT
trap 'echo terminate >> signals' TERM
echo '`+started+`'
# A second signal would shorten this wait.
n=0; while [ $n -lt 25 ]; do sleep 0.1; n=$((n+1)); done
echo '`+halted+`'
exit 1
`)
	ctx := interruptOnStart(t, &cfg)
	err := initialised(t, cfg).Apply(ctx)
	got, ok := errors.AsType[*Error](err)
	if !ok || !got.Interrupted || got.Killed || got.Unsaved != nil {
		t.Fatalf("error %#v", err)
	}
	if got.Diagnostic == nil || got.Diagnostic.Summary != "execution halted" {
		t.Errorf("diagnostic %+v", got.Diagnostic)
	}
	signals, err := os.ReadFile(filepath.Join(cfg.Dir, "signals"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("interrupt\n", string(signals)); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}

func TestApply_that_finishes_in_spite_of_an_interrupt_is_a_success(t *testing.T) {
	t.Parallel()
	cfg := standIn(t, `
[ "$1" = apply ] || exit 0
trap 'interrupted=yes' INT
echo '`+started+`'
while [ -z "$interrupted" ]; do sleep 0.05; done
echo '`+complete+`'
`)
	ctx := interruptOnStart(t, &cfg)
	if err := initialised(t, cfg).Apply(ctx); err != nil {
		t.Fatalf("error %v", err)
	}
	if ctx.Err() == nil {
		t.Error("nothing was interrupted")
	}
}

func TestApply_that_does_not_end_is_killed(t *testing.T) {
	t.Parallel()
	cfg := standIn(t, `
[ "$1" = apply ] || exit 0
trap '' INT
echo '`+started+`'
exec sleep 60
`)
	cfg.WaitDelay = 200 * time.Millisecond
	ctx := interruptOnStart(t, &cfg)
	err := initialised(t, cfg).Apply(ctx)
	if got, ok := errors.AsType[*Error](err); !ok || !got.Killed || !got.Interrupted {
		t.Errorf("error %#v", err)
	}
}

func TestApply_failure_that_has_no_words(t *testing.T) {
	t.Parallel()
	cfg := standIn(t, `
[ "$1" = apply ] || exit 0
echo 'panic: no memory' >&2
kill -9 $$
`)
	err := initialised(t, cfg).Apply(t.Context())
	got, ok := errors.AsType[*Error](err)
	if !ok || !got.Killed || got.Interrupted {
		t.Fatalf("error %#v", err)
	}
}

func TestApply_that_left_its_state_behind_is_no_success(t *testing.T) {
	t.Parallel()
	cfg := standIn(t, `
[ "$1" = apply ] || exit 0
echo '{}' > errored.tfstate
echo '`+complete+`'
`)
	err := initialised(t, cfg).Apply(t.Context())
	if got, ok := errors.AsType[*Error](err); !ok || string(got.Unsaved) != "{}\n" {
		t.Errorf("error %#v", err)
	}
}

func TestInit_error_without_events_is_the_standard_error(t *testing.T) {
	t.Parallel()
	tf, err := New(standIn(t, `echo "no such flag" >&2; exit 1`))
	if err != nil {
		t.Fatal(err)
	}
	err = tf.Init(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("error %v", err)
	}
}

func TestCommand_of_an_ended_context_is_not_started(t *testing.T) {
	t.Parallel()
	cfg := standIn(t, `[ "$1" = apply ] && touch applied; exit 0`)
	tf := initialised(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tf.Apply(ctx); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, "applied")); err == nil {
		t.Error("terraform was started")
	}
}

func TestOutputs_and_plan_do_not_reach_the_events(t *testing.T) {
	t.Parallel()
	cfg := standIn(t, `
case $1 in
output) echo '{"password":{"sensitive":true,"type":"string","value":"hunter2"}}' ;;
show)   echo '{"format_version":"1.2","terraform_version":"1.11.4","variables":{"password":{"value":"hunter2"}}}' ;;
*)      echo '`+complete+`' ;;
esac
`)
	var seen []string
	cfg.OnEvent = func(e events.Event) { seen = append(seen, string(e.Kind)+" "+e.Text) }
	tf := initialised(t, cfg)
	if err := tf.Plan(t.Context(), map[string]string{"a": "b"}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := tf.ShowPlan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tf.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	outputs, err := tf.Outputs(t.Context())
	if err != nil || string(outputs["password"]) != `"hunter2"` {
		t.Fatalf("outputs %s, %v", outputs["password"], err)
	}
	want := []string{"change_summary done", "change_summary done", "change_summary done"} // init, plan, apply
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// A process of Terraform for each command, and one more in all.
	if versions, err := os.ReadFile(filepath.Join(filepath.Dir(cfg.Binary), "versions")); err != nil || string(versions) != "asked\n" {
		t.Errorf("the version was asked for so often: %q, %v", versions, err)
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	cfg := standIn(t, `
[ "$1" = state ] || exit 0
echo "$@" > arguments
cp rescued.tfstate pushed
[ -e refuse ] && { echo 'cannot import state with lineage' >&2; exit 1; }
exit 0
`)
	tf := initialised(t, cfg)
	if err := tf.Push(t.Context(), []byte("state")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"pushed": "state", "arguments": "state push -lock=true -lock-timeout=0s rescued.tfstate\n"} {
		got, err := os.ReadFile(filepath.Join(cfg.Dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "refuse"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tf.Push(t.Context(), []byte("state")); err == nil || !strings.Contains(err.Error(), "cannot import state with lineage") {
		t.Errorf("error %v", err)
	}
}

func TestEnv(t *testing.T) {
	t.Parallel()
	parent := map[string]string{
		"PATH": "/bin", "HOME": "/tmp/home", "TF_CLI_CONFIG_FILE": "/etc/terraform.rc",
		"AWS_SECRET_ACCESS_KEY": "x", "TF_VAR_a": "x", "TF_LOG": "TRACE", "KUBECONFIG": "x", "HTTPS_PROXY": "http://proxy",
	}
	got := Env(func(key string) string { return parent[key] },
		map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "HTTPS_PROXY": "http://other"},
		map[string]string{"AWS_PROFILE": "kubeopera"}, 1000)
	want := map[string]string{
		"PATH": "/bin", "HOME": "/tmp/home", "TF_CLI_CONFIG_FILE": "/etc/terraform.rc", "HTTPS_PROXY": "http://other",
		"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_PROFILE": "kubeopera", "CHECKPOINT_DISABLE": "1", "GOMEMLIMIT": "600",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestCheckEnv(t *testing.T) {
	t.Parallel()
	tests := []struct {
		key  string
		want bool
	}{
		{"AWS_ENDPOINT_URL", true},
		{"AWS_CA_BUNDLE", true},
		{"https_proxy", true},
		{"TF_STATE_PERSIST_INTERVAL", true},
		{"AWS_SECRET_ACCESS_KEY", false},
		{"AWS_PROFILE", false},
		{"LD_PRELOAD", false},
		{"PATH", false},
		{"TF_VAR_region", false},
		{"TF_CLI_ARGS_apply", false},
		{"TF_LOG", false},
		{"A=B", false},
		{"", false},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			t.Parallel()
			err := CheckEnv(map[string]string{tt.key: "value"})
			if (err == nil) != tt.want {
				t.Errorf("error %v", err)
			}
		})
	}
}
