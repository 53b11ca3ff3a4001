package repository

import (
	"context"
	"strings"
	"unicode"

	"github.com/kubeopera/platform/shared/runner/git"
)

// Push brings a commit to a branch that does not move it anywhere but forward.
// The error is a *RacedError if the branch is not where the commit's parent is, a
// *RefusedError if trying again is useless; after any other it is not known whether
// the commit is there.
func (r *Remote) Push(ctx context.Context, commit, branch string) error {
	return r.push(ctx, commit, branch)
}

// Replace brings a commit to a branch that is at old, and moves it wherever the
// commit is; empty: there is no such branch. It is for a branch of our own. Errors
// are as Push's.
func (r *Remote) Replace(ctx context.Context, commit, branch, old string) error {
	return r.push(ctx, commit, branch, "--force-with-lease=refs/heads/"+branch+":"+old)
}

func (r *Remote) push(ctx context.Context, commit, branch string, flags ...string) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.PushTimeout)
	defer cancel()
	// A thin pack would be made from files that were never fetched.
	args := append([]string{"push", "--porcelain", "--no-verify", "--no-thin"}, flags...)
	out, err := r.folder.Run(ctx, append(args, "origin", commit+":refs/heads/"+branch)...)
	if err == nil {
		return nil
	}
	return rejection(out, err)
}

// rejection tells what a push that failed has failed for.
func rejection(porcelain string, err error) error {
	text := ""
	if e, ok := err.(*git.Error); ok { //nolint:errorlint // Folder's own
		text = e.Text
	}
	for line := range strings.Lines(porcelain) {
		fields := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		if len(fields) != 3 || fields[0] != "!" {
			continue
		}
		summary := fields[2] // [remote rejected] (reason)
		if !strings.HasPrefix(summary, "[remote rejected]") || moved(summary) {
			return &RacedError{Reason: summary}
		}
		return &RefusedError{Words: serverWords(text, summary)}
	}
	if git.Classify(err) == git.Forbidden {
		return &RefusedError{Words: serverWords(text, "(it does not let the credential write)")}
	}
	return err
}

// moved tells a server that has found the branch elsewhere than it was when the
// push began.
func moved(summary string) bool {
	for _, text := range []string{"failed to update ref", "cannot lock ref", "incorrect old value", "reference already exists", "failed to lock", "fetch first", "non-fast-forward"} {
		if strings.Contains(summary, text) {
			return true
		}
	}
	return false
}

// maxWords bounds what is repeated of a server, in bytes.
const maxWords = 600

// serverWords is what the server says of a refusal: what it sends for people, or
// else otherwise.
func serverWords(text, otherwise string) string {
	var said []string
	for line := range strings.Lines(text) {
		line, ok := strings.CutPrefix(line, "remote:")
		line = strings.TrimSpace(printable(line))
		if ok && line != "" {
			said = append(said, line)
		}
	}
	words := strings.Join(said, " ")
	otherwise = printable(otherwise)
	if words == "" {
		return otherwise
	}
	if len(words) > maxWords {
		words = strings.ToValidUTF8(words[:maxWords], "") + "…"
	}
	return words + " " + strings.TrimPrefix(otherwise, "[remote rejected] ")
}

// printable leaves out what could rewrite a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == ' ' {
			return r
		}
		return ' '
	}, s)
}
