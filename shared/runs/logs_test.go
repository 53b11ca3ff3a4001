package runs_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

func TestALongLogKeepsItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	w.cluster.Start(run.ID)
	var text strings.Builder
	for i := range 300_000 { // 9.3 MB
		fmt.Fprintf(&text, "line %024d\n", i)
	}
	w.cluster.SetLog(run.ID, text.String())
	w.cluster.Finish(run.ID, 0, succeeded)
	e.Sweep(t.Context())
	saved, err := w.store.Log(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !saved.Truncated || saved.Bytes > 4<<20 || saved.Bytes < 4<<20-100 || len(saved.Gzip) > 2<<20 {
		t.Errorf("truncated %t, %d bytes, %d packed", saved.Truncated, saved.Bytes, len(saved.Gzip))
	}
	archived, err := e.Logs(t.Context(), run.ID, runs.LogOptions{})
	got := readAll(t, archived, err)
	if !strings.HasPrefix(got, "line ") || !strings.HasSuffix(text.String(), got) || int64(len(got)) != saved.Bytes {
		t.Errorf("%d bytes that begin with %q", len(got), got[:40])
	}
}

func TestFollowersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t, func(c *runs.Config) { c.MaxFollowers = 2 })
	run := begin(t, e, "acme")
	follow := func() (io.ReadCloser, error) { return e.Logs(t.Context(), run.ID, runs.LogOptions{Follow: true}) }
	// One that does not get what it asks for takes nobody's place.
	if _, err := e.Logs(t.Context(), "nobody", runs.LogOptions{Follow: true}); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("no run: %v", err)
	}
	var followed []io.ReadCloser
	for range 2 {
		log, err := follow()
		if err != nil {
			t.Fatal(err)
		}
		followed = append(followed, log)
	}
	if _, err := follow(); !errors.Is(err, runs.ErrTooManyFollowers) {
		t.Errorf("the third: %v", err)
	}
	if _, err := e.Logs(t.Context(), run.ID, runs.LogOptions{}); !errors.Is(err, runs.ErrNoLogs) {
		t.Errorf("one that does not follow: %v", err)
	}
	for range 2 { // to close it twice frees one place
		if err := followed[0].Close(); err != nil {
			t.Fatal(err)
		}
	}
	log, err := follow()
	if err != nil {
		t.Fatalf("after one has left: %v", err)
	}
	if _, err := follow(); !errors.Is(err, runs.ErrTooManyFollowers) {
		t.Errorf("after another one has come: %v", err)
	}
	for _, log := range []io.ReadCloser{followed[1], log} {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}

// mute is a Cluster whose nodes do not give logs.
type mute struct{ runs.Cluster }

func (mute) Logs(context.Context, runs.ID, runs.LogOptions) (io.ReadCloser, error) {
	return nil, fmt.Errorf("%w: %w", runs.ErrKubernetes, errDown)
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func TestANodeThatGivesNoLog(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t, func(c *runs.Config) { c.Cluster = mute{w.cluster} })
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	w.cluster.Start(run.ID)
	w.cluster.Finish(run.ID, 0, succeeded)
	w.cluster.Publish(run.ID, runcontract.KeyLogTail, zipped(t, "the end\n"))

	e.Sweep(t.Context())
	if got := w.expect(t, run.ID, api.StatusSucceeded); got.Cleaned {
		t.Error("gave up on the log at once")
	}
	if w.cluster.Credential(run.ID) != nil {
		t.Error("the credential waits for the log")
	}
	w.pass(11 * time.Minute)
	e.Sweep(t.Context())
	if got := w.get(t, run.ID); !got.Cleaned {
		t.Error("not cleaned")
	}
	text, err := e.Logs(t.Context(), run.ID, runs.LogOptions{})
	if got := readAll(t, text, err); got != "the end\n" {
		t.Errorf("got %q, want what the runner published", got)
	}
}

func TestPublishedLogThatIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	w.cluster.Publish(run.ID, runcontract.KeyLogTail, []byte("not gzip"))
	w.cluster.Vanish(run.ID)
	e.Sweep(t.Context())
	if got := w.expect(t, run.ID, api.StatusFailed); !got.Cleaned || got.ErrorCode != string(runs.CodeLost) {
		t.Errorf("got %+v", got)
	}
}
