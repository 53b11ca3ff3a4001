package runs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// Change is the changing part of a run as it should be.
type Change struct {
	Status    api.Status
	Phase     api.Phase
	Message   string
	ErrorCode string
	Progress  api.Progress
	Details   Details

	// DeleteJob asks for the Job's deletion: its pod must not start any more, or
	// must stop. The run ends once it is gone.
	DeleteJob bool
}

// messageLimit bounds a message in bytes: Terraform's diagnostics fit, a log does not.
const messageLimit = 4096

// Next says what a run becomes by what is seen of it. It is pure, never ends a
// run while something of it may still be at work, and never changes a run that
// is queued (launching is not syncing) or has ended.
func Next(run Run, seen Observation, now time.Time, startDeadline time.Duration) Change {
	c := run.changing()
	switch {
	case run.Status == api.StatusQueued || Final(run.Status):
		return c
	case seen.ended():
		return end(c, seen)
	case run.Status == api.StatusCancelling:
		return followCancelled(c, seen, run.CancelRequestedAt)
	case c.ErrorCode != "":
		// It was given up before it started; its Job has to go first.
		c.DeleteJob = seen.Job != nil && seen.Job.DeletionTimestamp.IsZero()
		return c
	}
	c = follow(c, seen)
	return giveUp(c, seen, run.StartedAt, now, startDeadline)
}

// follow takes over phase, progress and message of a run that is at work.
func follow(c Change, seen Observation) Change {
	phase, text := where(seen)
	switch {
	case later(c.Phase, phase) != c.Phase:
		c.Phase, c.Message = phase, text
	case phase == c.Phase && !seen.Begun() && seen.EventsRead:
		c.Message = text // what was in the way is so no more
	}
	if p := seen.progress(); p != nil {
		c = report(c, *p)
	}
	if in := obstacle(seen); in != nil {
		c.Message = in.message
	}
	return c
}

// followCancelled takes over how far a run is that was asked to stop. Its message
// says so until the runner has more to say; and its Job is deleted, if that was
// not done when it was asked.
func followCancelled(c Change, seen Observation, askedAt time.Time) Change {
	was := c.Message
	c = follow(c, seen)
	c.Message = was
	if p := seen.progress(); p != nil && p.Message != "" && p.Phase == c.Phase && p.UpdatedAt.After(askedAt) {
		c.Message = sentence("cancelling", p.Message)
	}
	c.DeleteJob = !seen.deleted()
	return c
}

// report takes over what the runner says of itself. Reports may arrive out of
// order, so neither the phase nor a count of the same total goes back.
func report(c Change, p runcontract.Progress) Change {
	if later(p.Phase, c.Phase) != p.Phase {
		return c
	}
	done, total := max(p.Done, 0), max(p.Total, 0)
	if total == 0 { // a phase that counts nothing
		done, total = c.Progress.Done, c.Progress.Total
	}
	if p.Phase == c.Phase && total == c.Progress.Total {
		done = max(done, c.Progress.Done)
	}
	c.Phase = p.Phase
	if len(p.Nodes) > 0 {
		c.Details.Nodes = p.Nodes
	}
	if p.Scaffold != nil {
		c.Details.Scaffold = p.Scaffold
	}
	c.Progress = api.Progress{Done: done, Total: total, Current: p.Current}
	c.Message = p.Message
	if c.Message == "" {
		c.Message = strings.ReplaceAll(string(p.Phase), "_", " ")
		if p.Total > 0 {
			c.Message += fmt.Sprintf(": %d of %d", c.Progress.Done, c.Progress.Total)
		}
	}
	return c
}

// where says how far the run's pod has come, and what that means.
func where(seen Observation) (api.Phase, string) {
	pod := seen.pod()
	switch {
	case pod == nil:
		return api.PhaseStarting, "waiting for Kubernetes to create the run's pod"
	case pod.Spec.NodeName == "" && len(containers(pod)) == 0:
		return api.PhaseStarting, "waiting for a node that can take the run's pod"
	case !seen.Begun():
		return api.PhasePulling, "the node is pulling images and mounting volumes"
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil || s.State.Terminated != nil {
			return firstPhase(pod), "the runner has started"
		}
	}
	return api.PhaseCloning, "the run's sources are being fetched"
}

// firstPhase is what a runner begins with.
func firstPhase(pod *corev1.Pod) api.Phase {
	if pod.Labels[runcontract.LabelKind] == string(runcontract.KindScaffold) {
		return api.PhaseClone
	}
	return api.PhasePreparingState
}

// stopping says why a pod was told to stop, if it was.
func stopping(pod *corev1.Pod) string {
	if pod.DeletionTimestamp.IsZero() {
		return ""
	}
	why := disruption(pod)
	if why == "" {
		why = "it was deleted"
	}
	return fmt.Sprintf("the run's pod was told to stop (%s); it has time to save its work", why)
}

// changing is the part of a run that a Change replaces, as it is.
func (r Run) changing() Change {
	return Change{Status: r.Status, Phase: r.Phase, Message: r.Message, ErrorCode: r.ErrorCode, Progress: r.Progress, Details: r.Details}
}

// with is the run after a change. changed is false if that changes nothing.
func (r Run) with(c Change, now time.Time) (next Run, changed bool, err error) {
	c.Message, c.Progress.Current = tidy(c.Message, messageLimit), tidy(c.Progress.Current, messageLimit/4)
	c.ErrorCode = tidy(c.ErrorCode, 256)
	c.Details = c.Details.tidy()
	c.DeleteJob = false
	if reflect.DeepEqual(c, r.changing()) {
		return r, false, nil
	}
	if err := checkMove(r.Status, c.Status); err != nil {
		return r, false, err
	}
	next = r
	next.Status, next.Phase, next.Message, next.ErrorCode = c.Status, c.Phase, c.Message, c.ErrorCode
	next.Progress, next.Details = c.Progress, c.Details
	next.UpdatedAt = now
	if c.Status == api.StatusRunning && next.StartedAt.IsZero() {
		next.StartedAt = now
	}
	if Final(c.Status) {
		next.FinishedAt = now
	}
	if c.Status != api.StatusQueued {
		next.QueuePosition = 0
	}
	return next, true, nil
}

// maxNodes bounds the nodes of a run's details; the largest cluster that a run
// may ask for has fewer.
const maxNodes = 1000

// tidy makes details fit for both databases.
func (d Details) tidy() Details {
	d.Nodes = slices.Clone(d.Nodes[:min(len(d.Nodes), maxNodes)])
	for i, n := range d.Nodes {
		d.Nodes[i] = api.Node{Name: tidy(n.Name, 256), State: api.NodeState(tidy(string(n.State), 64)), Message: tidy(n.Message, messageLimit/4)}
	}
	if d.Lock != nil {
		d.Lock = &api.StateLock{ID: tidy(d.Lock.ID, 256), Who: tidy(d.Lock.Who, 256), Created: d.Lock.Created.UTC()}
		if year := d.Lock.Created.Year(); year < 0 || year > 9999 { // JSON has no such time, though it has 9999-12-31T23:59:59-14:00
			d.Lock.Created = time.Time{}
		}
	}
	if was := d.Scaffold; was != nil {
		d.Scaffold = &api.ScaffoldOutput{
			GitOpsPath: tidy(was.GitOpsPath, 256), PushedBranch: tidy(was.PushedBranch, 256), CertificateFingerprint: tidy(was.CertificateFingerprint, 256),
		}
		if was.Commits != nil {
			d.Scaffold.Commits = &api.ScaffoldCommits{Infrastructure: tidy(was.Commits.Infrastructure, 256), Complete: tidy(was.Commits.Complete, 256)}
		}
	}
	return d
}

// tidy makes text from outside fit for both databases and for whoever prints it:
// valid UTF-8 of at most limit bytes, with line feeds and tabs, but no NUL and
// nothing else that steers a terminal.
func tidy(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= limit {
		return s
	}
	const more = "…"
	n := limit - len(more)
	for n > 0 && s[n]&0xC0 == 0x80 { // not in the middle of a rune
		n--
	}
	return s[:n] + more
}
