package repository

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runner/git"
)

func getenv(key string) string {
	value, _ := os.LookupEnv(key)
	return value
}

// newRemote is a new bare repository.
func newRemote(t *testing.T) *Remote {
	t.Helper()
	bare := filepath.Join(t.TempDir(), "bare.git")
	if out, err := exec.CommandContext(t.Context(), "git", "init", "--quiet", "--bare", bare).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return open(t, bare)
}

func open(t *testing.T, bare string) *Remote {
	t.Helper()
	r, err := Open(t.Context(), Config{
		URL: "file://" + bare, Dir: filepath.Join(t.TempDir(), "clone"), Env: git.Env(git.Config{Getenv: getenv, Protocols: []string{"file"}}),
		Redactor: redact.New(), Log: t.Logf, AuthorName: "A <b>\nc", AuthorEmail: "a@example.org", Pause: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func head(t *testing.T, r *Remote) Head {
	t.Helper()
	h, err := r.Branch(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func commit(t *testing.T, r *Remote, h Head, to gitopsenv.Tree) string {
	t.Helper()
	id, err := r.Commit(t.Context(), h, gitopsenv.Changes(h.Tree, to), "message\n")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRemote_keeps_every_byte_and_every_name(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	h := head(t, r)
	if h.Commit != "" || len(h.Tree) != 0 {
		t.Fatalf("an empty repository: %+v", h)
	}
	want := gitopsenv.Tree{
		"apps/a.yaml":           []byte("a: b\r\n\n"),
		"apps/empty":            {},
		"clusters/ \"q\\\t\nü":  []byte("\x00\xff"),
		"clusters/x/no newline": []byte("data 5\nabc"),
	}
	if err := r.Push(t.Context(), commit(t, r, h, want), "main"); err != nil {
		t.Fatal(err)
	}
	h = head(t, r)
	if diff := cmp.Diff(want, h.Tree); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	delete(want, "apps/a.yaml")
	if err := r.Push(t.Context(), commit(t, r, h, want), "main"); err != nil {
		t.Fatal(err)
	}
	next := head(t, r)
	if diff := cmp.Diff(want, next.Tree); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{h.Commit}, next.Parents); diff != "" || next.Message != "message" {
		t.Errorf("message %q, parents (-want +got):\n%s", next.Message, diff)
	}
}

func TestRemote_tells_races_and_replaces_only_what_it_has_seen(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	empty := head(t, r)
	one := commit(t, r, empty, gitopsenv.Tree{"apps/1": []byte("1")})
	two := commit(t, r, empty, gitopsenv.Tree{"apps/2": []byte("2")})
	if err := r.Push(t.Context(), one, "main"); err != nil {
		t.Fatal(err)
	}
	if err := r.Push(t.Context(), two, "main"); !isRaced(err) {
		t.Errorf("not forward: %v", err)
	}
	if err := r.Replace(t.Context(), two, "own", one); !isRaced(err) {
		t.Errorf("a branch that is not there: %v", err)
	}
	if err := r.Replace(t.Context(), two, "own", ""); err != nil {
		t.Errorf("a new branch: %v", err)
	}
	if err := r.Replace(t.Context(), one, "own", ""); !isRaced(err) {
		t.Errorf("a branch that is there by now: %v", err)
	}
	if err := r.Replace(t.Context(), one, "own", two); err != nil {
		t.Errorf("a branch of ours: %v", err)
	}
	_, err := r.Branch(t.Context(), "other")
	missing, ok := errors.AsType[*BranchMissingError](err)
	if !ok || cmp.Diff([]string{"main", "own"}, missing.Branches) != "" {
		t.Errorf("error %v", err)
	}
}

func isRaced(err error) bool {
	_, ok := errors.AsType[*RacedError](err)
	return ok
}

func TestRejection(t *testing.T) {
	t.Parallel()
	const to = "!\t0123:refs/heads/main\t"
	tests := []struct {
		name, porcelain, stderr string
		want                    error
	}{
		{"late", to + "[rejected] (fetch first)\nDone", "", &RacedError{Reason: "[rejected] (fetch first)"}},
		{"moved meanwhile", to + "[remote rejected] (failed to update ref)", "", &RacedError{Reason: "[remote rejected] (failed to update ref)"}},
		{"locked", to + "[remote rejected] (cannot lock ref 'refs/heads/main': is at 1 but expected 2)", "", &RacedError{Reason: "[remote rejected] (cannot lock ref 'refs/heads/main': is at 1 but expected 2)"}},
		{"a hook", to + "[remote rejected] (pre-receive hook declined)", "remote: \x1b[31mNo.\nremote: \nremote: Ask ops.\nerror: failed to push", &RefusedError{Words: "[31mNo. Ask ops. (pre-receive hook declined)"}},
		{"protected", to + "[remote rejected] (protected branch hook declined)", "", &RefusedError{Words: "[remote rejected] (protected branch hook declined)"}},
		{"no right", "", "remote: Write access to repository not granted.\nfatal: unable to access: The requested URL returned error: 403", &RefusedError{Words: "Write access to repository not granted. (it does not let the credential write)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := rejection(tt.porcelain, &git.Error{Verb: "push", Text: tt.stderr, Err: errors.New("exit status 1")})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
	network := &git.Error{Verb: "push", Text: "fatal: the remote end hung up", Err: errors.New("exit status 128")}
	if got := rejection("", network); !errors.Is(got, network) {
		t.Errorf("error %v", got)
	}
}

func FuzzRejection(f *testing.F) {
	f.Add("!\ta:b\t[remote rejected] (hook declined)\nDone", "remote: no\n")
	f.Add("!\t\t", "remote:")
	f.Fuzz(func(t *testing.T, porcelain, stderr string) {
		err := rejection(porcelain, &git.Error{Verb: "push", Text: stderr, Err: errors.New("exit status 1")})
		if err == nil {
			t.Fatal("a push that failed has not")
		}
		if refused, ok := errors.AsType[*RefusedError](err); ok && strings.ContainsRune(refused.Words, '\x1b') {
			t.Errorf("control characters in %q", refused.Words)
		}
	})
}
