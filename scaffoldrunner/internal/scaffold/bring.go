package scaffold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/internal/repository"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/git"
)

// pushAttempts is how often a push is tried that comes too late, or whose end is
// not known.
const (
	pushAttempts = 6
	lateAttempts = 2 // of those that took all of their time
)

// bring makes the branch what a pass wants it to be, and returns the commit that it
// is then. head is the branch as it was read just now; its zero value: it was not.
func (r *scaffoldRun) bring(ctx context.Context, head repository.Head, p pass) (string, error) {
	if r.Phase() != p.generate {
		r.Enter(p.generate)
	}
	if r.Spec.Repository.Mode == api.PushPullRequest {
		return r.propose(ctx, p)
	}
	for attempt := 1; ; attempt++ {
		if head.Tree == nil {
			var err error
			if head, err = r.branch(ctx); err != nil {
				return "", err
			}
		}
		changes, err := r.generate(ctx, p, head, head.Tree)
		if err != nil {
			return "", err
		}
		if len(changes) == 0 {
			r.pushed()
			return head.Commit, nil
		}
		if r.Phase() != p.push {
			r.Enter(p.push)
		}
		commit, err := r.remote.Commit(ctx, head, changes, r.message(p))
		if err != nil {
			return "", err
		}
		if err = r.remote.Push(ctx, commit, r.Spec.Repository.Branch); err == nil {
			r.Log.Printf("pushed %s to %s", commit, r.Spec.Repository.Branch)
			r.pushed()
			return commit, nil
		}
		if err := r.pushAgain(ctx, attempt, err); err != nil {
			return "", err
		}
		head = repository.Head{}
	}
}

func (r *scaffoldRun) pushed() {
	r.made(func(o *api.ScaffoldOutput) { o.GitOpsPath = r.folder })
}

// pushAgain waits before another attempt, or says why there must be none.
func (r *scaffoldRun) pushAgain(ctx context.Context, attempt int, err error) error {
	raced, isRaced := errors.AsType[*repository.RacedError](err)
	said, isGit := errors.AsType[*git.Error](err)
	_, isRefused := errors.AsType[*repository.RefusedError](err)
	switch {
	case ctx.Err() != nil:
		return err
	case isRefused || !isRaced && git.Classify(err) != git.Passing:
		return err
	case attempt >= pushAttempts && isRaced:
		return &StepError{
			Code: runcontract.CodePushRaced,
			Message: fmt.Sprintf("others have pushed to branch %s each of the %d times that the run tried to (%s): start the run again when the branch is quieter",
				r.Spec.Repository.Branch, attempt, raced.Reason),
		}
	case attempt >= pushAttempts || isGit && said.Late > 0 && attempt >= lateAttempts:
		return err
	}
	pause := r.Pause(attempt)
	r.Say("the push did not succeed, generating again on the branch's newest commit")
	r.Log.Printf("push, attempt %d of %d: %v (again in %s)", attempt, pushAttempts, err, pause.Round(time.Millisecond))
	r.Report()
	return sleep(ctx, pause)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// propose pushes what a pass changes to a branch of its own, and waits until
// somebody has merged it: until the branch needs no change any more.
func (r *scaffoldRun) propose(ctx context.Context, p pass) (string, error) {
	branch, own := r.Spec.Repository.Branch, r.Spec.Repository.MergeBranch
	limit := time.Duration(r.Spec.MergeTimeoutSeconds) * time.Second
	late := fmt.Errorf("no merge in %s", limit)
	waiting, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	var proposed []gitopsenv.Change // is on the own branch
	for attempt := 1; ; {
		head, err := r.branch(ctx)
		if err != nil {
			return "", err
		}
		tip, err := r.tip(ctx, own)
		if err != nil {
			return "", err
		}
		// What is proposed already stays as it is where it can: sealing gives other
		// bytes each time.
		from := head.Tree
		if proposed == nil && r.ours(tip) && slices.Equal(tip.Parents, parents(head)) {
			proposed = gitopsenv.Changes(head.Tree, tip.Tree)
		}
		if proposed != nil {
			from = applied(head.Tree, proposed)
		}
		changes, err := r.generate(ctx, p, head, from)
		if err != nil {
			return "", err
		}
		if len(changes) == 0 {
			r.pushed()
			r.made(func(o *api.ScaffoldOutput) { o.PushedBranch = "" })
			return head.Commit, nil
		}
		if tip.Commit == "" || !sameChanges(changes, proposed) {
			if err := r.pushOwn(ctx, p, head, tip, changes); err != nil {
				if err := r.pushAgain(ctx, attempt, err); err != nil {
					return "", err
				}
				attempt++
				continue
			}
			proposed = changes
		}
		attempt = 1
		r.made(func(o *api.ScaffoldOutput) { o.PushedBranch = own })
		r.waitingFor = fmt.Sprintf("waiting for branch %s to be merged into %s: open a pull request for it, and merge it", own, branch)
		if r.Say(r.waitingFor) {
			r.Log.Printf("%s", r.waitingFor)
		}
		r.Report()
		err = r.awaitMove(waiting, head.Commit)
		switch {
		case err == nil:
		case ctx.Err() == nil && errors.Is(context.Cause(waiting), late):
			return "", &StepError{
				Code:    runcontract.CodeNotMerged,
				Message: fmt.Sprintf("branch %s was not merged into %s within %s: merge it, then start the run again, which goes on from there", own, branch, limit),
			}
		default:
			return "", err
		}
	}
}

// pushOwn moves the own branch to a commit with the changes, on top of the head.
func (r *scaffoldRun) pushOwn(ctx context.Context, p pass, head, tip repository.Head, changes []gitopsenv.Change) error {
	own := r.Spec.Repository.MergeBranch
	if tip.Commit != "" && !r.ours(tip) {
		return &repository.RefusedError{Words: fmt.Sprintf("branch %s has commits that no scaffolding run of %s has made, and is left alone: merge it or delete it", own, r.Spec.Inputs.Environment)}
	}
	if r.Phase() != p.push {
		r.Enter(p.push)
	}
	commit, err := r.remote.Commit(ctx, head, changes, r.message(p))
	if err != nil {
		return err
	}
	if head.Commit == "" {
		// There is nothing to merge into: the branch itself is born.
		return r.remote.Push(ctx, commit, r.Spec.Repository.Branch)
	}
	if err := r.remote.Replace(ctx, commit, own, tip.Commit); err != nil {
		return err
	}
	r.Log.Printf("pushed %s to %s", commit, own)
	return nil
}

// tip is the own branch; its zero value if it is not there.
func (r *scaffoldRun) tip(ctx context.Context, own string) (repository.Head, error) {
	commit, err := r.remote.Newest(ctx, own)
	if err != nil || commit == "" {
		return repository.Head{}, err
	}
	return r.remote.Branch(ctx, own)
}

// ours says whether a commit is one of a scaffolding run of this environment.
func (r *scaffoldRun) ours(head repository.Head) bool {
	return slices.Contains(strings.Split(head.Message, "\n"), trailerEnvironment+": "+r.Spec.Inputs.Environment)
}

func parents(head repository.Head) []string {
	if head.Commit == "" {
		return nil
	}
	return []string{head.Commit}
}

// applied is a tree with changes in it.
func applied(tree gitopsenv.Tree, changes []gitopsenv.Change) gitopsenv.Tree {
	out := maps.Clone(tree)
	for _, c := range changes {
		if c.New == nil {
			delete(out, c.Path)
		} else {
			out[c.Path] = c.New
		}
	}
	return out
}

// sameChanges says whether changes lead to the same files.
func sameChanges(a, b []gitopsenv.Change) bool {
	return slices.EqualFunc(a, b, func(a, b gitopsenv.Change) bool {
		return a.Path == b.Path && (a.New == nil) == (b.New == nil) && string(a.New) == string(b.New)
	})
}

// gone is how often in a row the own branch may be missing while the branch has not
// moved: a server merges and deletes in two steps.
const gone = 3

// awaitMove waits until the branch is elsewhere. An own branch that goes meanwhile
// was closed.
func (r *scaffoldRun) awaitMove(ctx context.Context, from string) error {
	missing := 0
	for {
		if err := sleep(ctx, r.poll()); err != nil {
			return err
		}
		now, err := r.remote.Newest(ctx, r.Spec.Repository.Branch)
		if err != nil || now != from {
			return err
		}
		own, err := r.remote.Newest(ctx, r.Spec.Repository.MergeBranch)
		if err != nil {
			return err
		}
		if missing++; own != "" {
			missing = 0
		}
		if missing >= gone {
			return &StepError{
				Code: runcontract.CodeNotMerged,
				Message: fmt.Sprintf("branch %s was deleted without having been merged into %s: start the run again to have it pushed again",
					r.Spec.Repository.MergeBranch, r.Spec.Repository.Branch),
			}
		}
	}
}

func (r *scaffoldRun) poll() time.Duration {
	return time.Duration(r.Spec.PollIntervalSeconds) * time.Second
}
