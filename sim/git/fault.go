package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Operation is what a client does with a repository.
type Operation int

// Operations. A clone and a listing of the remote's refs are fetches.
const (
	Fetch Operation = iota
	Push
)

// Fault happens when an operation begins, before the repository shows its refs,
// and holds the client up until it is done.
type Fault struct {
	Operation Operation
	Skip      int // so many operations pass untouched first
	Times     int // 0 is once, -1 for ever
	// Do may change the repository, or wait. An error ends the operation: 500 over
	// HTTPS.
	Do func(ctx context.Context, r *Repository) error
}

// Hang keeps the client waiting until it gives up.
func Hang(ctx context.Context, _ *Repository) error {
	<-ctx.Done()
	return ctx.Err()
}

// Delay keeps the client waiting for some time.
func Delay(d time.Duration) func(context.Context, *Repository) error {
	return func(ctx context.Context, _ *Repository) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Fail ends the operation with a message.
func Fail(message string) func(context.Context, *Repository) error {
	return func(context.Context, *Repository) error { return errors.New(message) }
}

// Land puts somebody else's commit, with these files besides those that are
// there, on a branch: at a push the client has then lost a race.
func Land(branch string, tree fs.FS) func(context.Context, *Repository) error {
	return func(ctx context.Context, r *Repository) error {
		_, err := r.AddTo(ctx, branch, "somebody else's change", tree)
		return err
	}
}

// Inject arms a fault. Of several the one that was armed first and is due happens.
func (r *Repository) Inject(fault Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, &fault)
}

// ClearFaults disarms all faults.
func (r *Repository) ClearFaults() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = nil
}

// strike lets a fault that is due happen.
func (r *Repository) strike(ctx context.Context, operation Operation) error {
	if do := r.due(operation); do != nil {
		return do(ctx, r)
	}
	return nil
}

func (r *Repository) due(operation Operation) func(context.Context, *Repository) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, f := range r.faults {
		if f.Operation != operation {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		switch {
		case f.Times > 1:
			f.Times--
		case f.Times >= 0:
			r.faults = append(r.faults[:i:i], r.faults[i+1:]...)
		}
		return f.Do
	}
	return nil
}

// Hoster is whose words a refusal uses.
type Hoster int

// Hosters.
const (
	GitHub Hoster = iota
	GitLab
)

// Protect refuses pushes to a branch, as a hoster does that wants changes by pull
// or merge request. The client learns it only from the answer to a push. A branch
// that is protected already gets the new words.
func (r *Repository) Protect(ctx context.Context, branch string, hoster Hoster) error {
	reason := "pre-receive hook declined"
	lines := []string{"GitLab: You are not allowed to push code to protected branches on this project."}
	if hoster == GitHub {
		reason = "protected branch hook declined"
		lines = []string{
			"error: GH006: Protected branch update failed for refs/heads/" + branch + ".",
			"error: Changes must be made through a pull request.",
		}
	}
	if err := r.Unprotect(ctx); err != nil {
		return err
	}
	if err := r.writeHook("proc-receive", procReceive("refs/heads/"+branch, reason, lines)); err != nil {
		return err
	}
	// Only pushes to that very branch go to the hook.
	_, err := r.run(ctx, "", "config", "receive.procReceiveRefs", "refs/heads/"+branch)
	return err
}

// Unprotect ends Protect.
func (r *Repository) Unprotect(ctx context.Context) error {
	if out, _ := r.run(ctx, "", "config", "--get-all", "receive.procReceiveRefs"); out == "" {
		return nil
	}
	_, err := r.run(ctx, "", "config", "--unset-all", "receive.procReceiveRefs")
	return err
}

// Decline refuses all pushes in a pre-receive hook, which says these lines.
func (r *Repository) Decline(lines ...string) error {
	return r.writeHook("pre-receive", "#!/bin/sh\ncat >/dev/null\n"+saying(lines)+"exit 1\n")
}

// Accept ends Decline.
func (r *Repository) Accept() error {
	err := os.Remove(filepath.Join(r.Dir(), "hooks", "pre-receive"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (r *Repository) writeHook(name, script string) error {
	dir := filepath.Join(r.Dir(), "hooks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755)
}

// saying are the commands that say lines to the client.
func saying(lines []string) string {
	var script strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&script, "echo '%s' >&2\n", strings.ReplaceAll(line, "'", `'\''`))
	}
	return script.String()
}

// procReceive is a hook that answers for a ref in receive-pack's stead. Only such
// a hook decides what stands in parentheses behind "remote rejected". It speaks
// pkt-lines: version, commands, results, each ended by a flush.
func procReceive(ref, reason string, lines []string) string {
	packet := func(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
	return "#!/bin/sh\n" + saying(lines) +
		"printf '%s\\n0000' '" + strings.TrimSuffix(packet("version=1\n"), "\n") + "'\n" +
		"printf '%s\\n0000' '" + strings.TrimSuffix(packet("ng "+ref+" "+reason+"\n"), "\n") + "'\n" +
		"cat >/dev/null\n"
}
