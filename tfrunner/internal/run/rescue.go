package run

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/tfrunner/internal/statebucket"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
)

// Rescued are states that could not be saved, kept beside the state.
type Rescued interface {
	Version(ctx context.Context) (v statebucket.Version, found bool, err error)
	Rescued(ctx context.Context) (runIDs []string, err error)
	Rescue(ctx context.Context, runID string, state []byte) error
	ReadRescued(ctx context.Context, runID string) ([]byte, error)
	DropRescued(ctx context.Context, runID string) error
	SetAside(ctx context.Context, runID string, state []byte) error
}

// aftermath is a context for putting right what a command left behind, which must
// happen even if ctx has ended.
func (r *terraformRun) aftermath(ctx context.Context, long time.Duration) (context.Context, context.CancelFunc) {
	if errors.Is(context.Cause(ctx), runner.ErrInterrupted) {
		return runner.Lasting(ctx, long) // the pod's grace period runs
	}
	return context.WithTimeout(context.WithoutCancel(ctx), long)
}

// salvage puts right what a Terraform left behind that did not end in order: it
// keeps its state and removes its lock.
func (r *terraformRun) salvage(ctx context.Context, err error) {
	tf, ok := errors.AsType[*terraform.Error](err)
	if !ok {
		return
	}
	if tf.Unsaved != nil {
		r.keep(ctx, tf.Unsaved)
	}
	if tf.Unsaved != nil || tf.LockLeft || tf.LockUnsure || tf.Killed {
		r.unlocked = r.removeOwn(ctx)
	}
}

// keep puts a state that Terraform could not save where the next run finds it.
func (r *terraformRun) keep(ctx context.Context, state []byte) {
	if len(state) == 0 { // it cannot be read
		return
	}
	ctx, cancel := r.aftermath(ctx, rescueTimeout)
	defer cancel()
	err := r.objects.Rescue(ctx, r.Spec.ID, state)
	if err == nil {
		r.kept = statebucket.RescueKey(r.Spec.ID) + " in the bucket " + r.Spec.State.Bucket
		return
	}
	r.Log.Printf("warning: the state that could not be saved cannot be kept in the state bucket: %v", err)
	packed, err := pack(state)
	if err == nil && !fits(map[string][]byte{runcontract.KeyErroredState: packed}) {
		err = fmt.Errorf("it has %d bytes, in gzip", len(packed))
	}
	if err != nil {
		r.Log.Printf("warning: nor can it be kept in the outputs Secret: %v", err)
		return
	}
	r.files[runcontract.KeyErroredState] = packed
	r.kept = "the run's outputs Secret"
}

// A Secret holds 1 MiB; progress and result need some of it.
const (
	secretBytes   = 1 << 20
	secretReserve = 64 << 10
)

// fits tells whether files can be published.
func fits(files map[string][]byte) bool {
	total := secretReserve
	for _, data := range files {
		total += len(data)
	}
	return total <= secretBytes
}

func pack(data []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// maxState bounds what is unpacked.
const maxState = 64 << 20

func unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(z, maxState+1))
	if err == nil && len(data) > maxState {
		err = fmt.Errorf("it has more than %d bytes", maxState)
	}
	return data, err
}

// rescued is a state that an earlier run could not save.
type rescued struct {
	statebucket.Version

	runID  string
	state  []byte
	bucket bool   // where it is kept; else in the outputs Secret
	packed []byte // as it is in there
}

// resume saves what earlier runs could not save. Everything that they made is in
// there; without it, it would be made again.
func (r *terraformRun) resume(ctx context.Context, tf Terraform) error {
	found, err := r.findRescued(ctx)
	if unreadable, ok := errors.AsType[*StepError](err); ok {
		return unreadable
	}
	if err != nil {
		return r.failed(ctx, runcontract.CodeStateBucket, "look for states that could not be saved", err)
	}
	for _, s := range found {
		if err := r.push(ctx, tf, s); err != nil {
			f := r.failed(ctx, runcontract.CodeStateNotSaved, "save the state that run "+s.runID+" could not save", err)
			if f.Code == runcontract.CodeStateNotSaved {
				f.Message += "; it is kept as it was, and nothing was changed"
				r.carry(s)
			}
			return f
		}
	}
	return nil
}

// carry publishes a state once more that an outputs Secret holds: the next run
// looks only into that of the newest run which could not save one.
func (r *terraformRun) carry(s rescued) {
	if !s.bucket {
		r.files[runcontract.KeyErroredState], r.carried = s.packed, true
	}
}

// findRescued reads what earlier runs could not save, in the order in which it came to be.
func (r *terraformRun) findRescued(ctx context.Context) ([]rescued, error) {
	ids, err := r.objects.Rescued(ctx)
	if err != nil {
		return nil, err
	}
	var found []rescued
	for _, id := range ids {
		state, err := r.objects.ReadRescued(ctx, id)
		if err != nil {
			return nil, err
		}
		found = append(found, rescued{runID: id, state: state, bucket: true})
	}
	mounted, err := r.mounted()
	if err != nil {
		return nil, err
	}
	if mounted != nil {
		found = append(found, *mounted)
	}
	readable := found[:0]
	for _, s := range found {
		if s.Version, err = statebucket.ReadVersion(s.state); err != nil {
			if err := r.setAside(ctx, s, err.Error()); err != nil {
				return nil, err
			}
			continue
		}
		readable = append(readable, s)
	}
	slices.SortFunc(readable, func(a, b rescued) int { return cmp.Compare(a.Serial, b.Serial) })
	return readable, nil
}

// mounted reads the state that was left in an outputs Secret; nil if there is none.
func (r *terraformRun) mounted() (*rescued, error) {
	if r.Spec.RescuedRun == "" {
		return nil, nil
	}
	path := filepath.Join(r.RescueDir, runcontract.KeyErroredState)
	packed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it is gone with its Secret, or was kept in the bucket
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of run %s: %w", r.Spec.RescuedRun, err)
	}
	state, err := unpack(packed)
	if err != nil {
		return nil, r.unreadable(err)
	}
	return &rescued{runID: r.Spec.RescuedRun, state: state, packed: packed}, nil
}

// unreadable is the failure of a run that is to take up a state which is damaged:
// what is in there alone is known to nobody else, so it is for people to decide.
func (r *terraformRun) unreadable(err error) *StepError {
	return &StepError{
		Code: runcontract.CodeStateBucket, // the next run is to look there again
		Message: fmt.Sprintf("the state that run %s could not save is damaged: %v; nothing was changed. "+
			"Put an intact copy, in gzip, into the key %s of the Secret %s; or, if there is none, delete that key, which gives up what the run did last: "+
			"what it made is then in no state, to be imported or removed by hand. Then start the run again",
			r.Spec.RescuedRun, err, runcontract.KeyErroredState, runcontract.OutputsSecretName(r.Spec.Kind, r.Spec.RescuedRun)),
	}
}

// push saves one rescued state, unless a later one was saved since.
func (r *terraformRun) push(ctx context.Context, tf Terraform, s rescued) error {
	saved, found, err := r.objects.Version(ctx)
	if err != nil {
		return err
	}
	switch {
	case found && saved.Lineage != s.Lineage:
		return r.setAside(ctx, s, "the state that is saved by now did not come of it")
	case found && saved.Serial > s.Serial:
		return r.setAside(ctx, s, fmt.Sprintf("a later one is saved by now (serial %d, not %d)", saved.Serial, s.Serial))
	}
	r.Say("saving the state that run " + s.runID + " could not save")
	// One that is saved already changes nothing. Terraform does not say in its
	// events that it has met a lock here, so it is looked for.
	err = tf.Push(ctx, s.state)
	if err != nil && r.removeOwn(ctx) && ctx.Err() == nil {
		err = tf.Push(ctx, s.state)
	}
	if err != nil {
		return err
	}
	r.Log.Printf("saved the state that run %s could not save (serial %d)", s.runID, s.Serial)
	if !s.bucket {
		return nil
	}
	if err := r.objects.DropRescued(ctx, s.runID); err != nil {
		// The next run finds it saved, or followed by a later one.
		r.Log.Printf("warning: %v", err)
	}
	return nil
}

// setAside keeps a state that is of no use where nobody takes it up.
func (r *terraformRun) setAside(ctx context.Context, s rescued, why string) error {
	r.Log.Printf("warning: the state that run %s could not save is not used: %s", s.runID, why)
	if !s.bucket {
		return nil
	}
	return r.objects.SetAside(ctx, s.runID, s.state)
}
