package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
)

func state(lineage string, serial int) []byte {
	return fmt.Appendf(nil, `{"version":4,"lineage":%q,"serial":%d}`, lineage, serial)
}

// noise does not compress.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func TestRescue_keeps_what_could_not_be_saved(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		state    []byte
		broken   error // the bucket
		finish   error // the outputs Secret
		says     string
		inBucket bool
		inSecret bool
	}{
		{"in the bucket", state("l", 3), nil, nil, "kept as rescue/1.tfstate in the bucket b", true, false},
		{"in the outputs Secret", state("l", 3), errors.New("AccessDenied"), nil, "kept as the run's outputs Secret", false, true},
		{"nowhere, since it is too large", noise(1 << 20), errors.New("AccessDenied"), nil, "the state is lost", false, false},
		{"nowhere, since the API server is gone too", state("l", 3), errors.New("AccessDenied"), errors.New("refused"), "the state is lost", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.bucket.broken = tt.broken
			w.on["apply"] = func(context.Context) error { return &terraform.Error{Verb: "apply", Unsaved: tt.state} }
			w.on["finish"] = func(context.Context) error { return tt.finish }
			result := w.run(t.Context(), spec())
			if result.ErrorCode != runcontract.CodeStateNotSaved || !strings.Contains(result.Message, tt.says) {
				t.Errorf("%s %q", result.ErrorCode, result.Message)
			}
			if diff := cmp.Diff(result, w.message); diff != "" {
				t.Errorf("termination message (-want +got):\n%s", diff)
			}
			if got := w.bucket.rescued["1"]; (got != nil) != tt.inBucket {
				t.Errorf("in the bucket: %s", got)
			}
			packed := w.files[runcontract.KeyErroredState]
			if (packed != nil) != tt.inSecret {
				t.Errorf("in the Secret: %d bytes", len(packed))
			}
			if packed != nil {
				got, err := unpack(packed)
				if diff := cmp.Diff(tt.state, got); diff != "" || err != nil {
					t.Errorf("state (-want +got):\n%s, %v", diff, err)
				}
			}
		})
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		saved   []byte
		rescued map[string][]byte
		mounted []byte
		push    error
		want    []byte // the saved state
		aside   []string
		left    []string // in the bucket
		code    runcontract.ErrorCode
	}{
		{name: "nothing"},
		{name: "a first state", rescued: map[string][]byte{"a": state("l", 3)}, want: state("l", 3)},
		{name: "a first state that S3 was not asked about", rescued: map[string][]byte{"a": state("", 0)}, want: state("", 0)},
		{name: "such a one, after others", saved: state("l", 1), rescued: map[string][]byte{"a": state("", 0)}, want: state("l", 1), aside: []string{"a"}},
		{name: "a later state", saved: state("l", 2), rescued: map[string][]byte{"a": state("l", 3)}, want: state("l", 3)},
		{name: "a state that is saved already", saved: state("l", 3), rescued: map[string][]byte{"a": state("l", 3)}, want: state("l", 3)},
		{name: "several, in the order in which they came to be", rescued: map[string][]byte{"a": state("l", 4), "b": state("l", 3)}, want: state("l", 4)},
		{name: "one that others came after", saved: state("l", 9), rescued: map[string][]byte{"a": state("l", 3)}, want: state("l", 9), aside: []string{"a"}},
		{name: "one of another origin", saved: state("m", 1), rescued: map[string][]byte{"a": state("l", 3)}, want: state("m", 1), aside: []string{"a"}},
		{name: "no state at all", rescued: map[string][]byte{"a": []byte("[]")}, aside: []string{"a"}},
		{name: "one of an outputs Secret", mounted: state("l", 3), want: state("l", 3)},
		{name: "one of an outputs Secret that others came after", saved: state("l", 9), mounted: state("l", 3), want: state("l", 9)},
		{
			name: "one that Terraform refuses", saved: state("l", 3), rescued: map[string][]byte{"a": state("l", 3)},
			push: &terraform.Error{Verb: "state push"}, want: state("l", 3), left: []string{"a"}, code: runcontract.CodeStateNotSaved,
		},
	}
	for _, tt := range tests {
		for _, operation := range []api.Operation{api.OperationApply, api.OperationPlan, api.OperationDestroy} {
			t.Run(tt.name+", then "+string(operation), func(t *testing.T) {
				t.Parallel()
				w, s := newWorld(), spec()
				s.Operation = operation
				w.bucket.state = tt.saved
				maps.Copy(w.bucket.rescued, tt.rescued)
				if w.rescues, s.RescuedRun = t.TempDir(), "m"; tt.mounted != nil {
					packed, err := pack(tt.mounted)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(w.rescues, runcontract.KeyErroredState), packed, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				w.on["push"] = func(context.Context) error { return tt.push }
				result := w.run(t.Context(), s)
				if result.ErrorCode != tt.code {
					t.Fatalf("result %+v", result)
				}
				if diff := cmp.Diff(string(tt.want), string(w.bucket.state)); diff != "" {
					t.Errorf("state (-want +got):\n%s", diff)
				}
				for _, id := range tt.aside {
					if w.bucket.aside[id] == nil {
						t.Errorf("the state of run %s is not kept", id)
					}
				}
				left, _ := w.bucket.Rescued(t.Context())
				if diff := cmp.Diff(tt.left, left); diff != "" {
					t.Errorf("rescued states that are left (-want +got):\n%s", diff)
				}
				if planned := strings.Contains(strings.Join(w.calls, " "), "plan"); planned != (tt.code == "") {
					t.Errorf("steps %v", w.calls)
				}
			})
		}
	}
}

func TestResume_damaged_state(t *testing.T) {
	t.Parallel()
	whole, err := pack(state("l", 3))
	if err != nil {
		t.Fatal(err)
	}
	for name, mounted := range map[string][]byte{"not gzip": []byte("nonsense"), "cut off": whole[:len(whole)-9], "empty": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(), spec()
			w.rescues, s.RescuedRun = t.TempDir(), "m"
			if err := os.WriteFile(filepath.Join(w.rescues, runcontract.KeyErroredState), mounted, 0o600); err != nil {
				t.Fatal(err)
			}
			result := w.run(t.Context(), s)
			// Of another code than state_not_saved: the next run is to look at the same.
			if result.ErrorCode != runcontract.CodeStateBucket || slices.Contains(w.calls, "plan") {
				t.Errorf("result %+v after %v", result, w.calls)
			}
			for _, want := range []string{"run m could not save is damaged", "nothing was changed", "delete that key", "errored.tfstate", "the Secret provision-m-outputs"} {
				if !strings.Contains(result.Message, want) {
					t.Errorf("the message does not say %q: %s", want, result.Message)
				}
			}
		})
	}
}

// TestResume_that_fails_hands_the_state_on: the next run looks only into the
// outputs Secret of the newest run that could not save a state.
func TestResume_that_fails_hands_the_state_on(t *testing.T) {
	t.Parallel()
	packed, err := pack(state("l", 3))
	if err != nil {
		t.Fatal(err)
	}
	for name, unpublished := range map[string]error{"published": nil, "not published": errors.New("refused")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(), spec()
			w.rescues, s.RescuedRun = t.TempDir(), "m"
			if err := os.WriteFile(filepath.Join(w.rescues, runcontract.KeyErroredState), packed, 0o600); err != nil {
				t.Fatal(err)
			}
			w.on["push"] = func(context.Context) error { return &terraform.Error{Verb: "state push"} }
			w.on["finish"] = func(context.Context) error { return unpublished }
			result := w.run(t.Context(), s)
			if diff := cmp.Diff(packed, w.files[runcontract.KeyErroredState]); diff != "" {
				t.Errorf("what is published of the state (-want +got):\n%s", diff)
			}
			// Only a run that has it may be taken for one that has.
			want := runcontract.CodeStateNotSaved
			if unpublished != nil {
				want = runcontract.CodePublish
			}
			if result.ErrorCode != want || strings.Contains(result.Message, "lost") {
				t.Errorf("result %+v", result)
			}
		})
	}
}

func TestResume_lost_answer_to_the_lock(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.pod = "provision-1-vwxyz"
	w.bucket.rescued["a"] = state("l", 3)
	attempts := 0
	w.on["push"] = func(context.Context) error {
		if attempts++; attempts > 1 {
			return nil
		}
		w.bucket.locked("7", "nonroot@"+w.pod)
		return &terraform.Error{Verb: "state push"}
	}
	if result := w.run(t.Context(), spec()); result.Outcome != runcontract.OutcomeSucceeded || string(w.bucket.state) != string(state("l", 3)) {
		t.Errorf("result %+v, state %s", result, w.bucket.state)
	}
}
