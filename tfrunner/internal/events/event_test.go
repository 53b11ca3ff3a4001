package events

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
)

// read parses a recorded output.
func read(t *testing.T, name string) []Event {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var found []Event
	w := NewWriter(func(e Event) { found = append(found, e) })
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	return found
}

func TestParse_plan_and_apply_as_Terraform_prints_them(t *testing.T) {
	t.Parallel()
	var tracker Tracker
	for _, e := range read(t, "plan.jsonl") {
		tracker.Observe(e)
	}
	if diff := cmp.Diff(api.Progress{Total: 2}, tracker.Progress()); diff != "" {
		t.Errorf("after the plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&api.Changes{Add: 2}, tracker.Planned()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	var seen []api.Progress
	for _, e := range read(t, "apply-fails.jsonl") {
		tracker.Observe(e)
		if e.Kind == KindApplyStart || e.Kind == KindApplyComplete || e.Kind == KindApplyErrored {
			seen = append(seen, tracker.Progress())
		}
	}
	want := []api.Progress{
		{Total: 2, Current: "terraform_data.a"},
		{Done: 1, Total: 2},
		{Done: 1, Total: 2, Current: "terraform_data.b"},
		{Done: 1, Total: 2},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if got := tracker.Changes(); got != (api.Changes{Add: 1}) {
		t.Error("a failed apply counts as applied")
	}
}

func TestParse_diagnostic_has_no_snippet(t *testing.T) {
	t.Parallel()
	var found []Diagnostic
	for _, e := range read(t, "apply-fails.jsonl") {
		if e.Diagnostic != nil {
			found = append(found, *e.Diagnostic)
		}
	}
	want := []Diagnostic{
		{Summary: "Check block assertion failed", Detail: "check failed"},
		{
			Error: true, Summary: "local-exec provisioner error", Address: "terraform_data.b",
			Detail: "Error running command 'exit 3': exit status 3. Output: no luck\n",
		},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
}

func TestDiagnostic_Lock(t *testing.T) {
	t.Parallel()
	for _, e := range read(t, "locked.jsonl") {
		if e.Diagnostic == nil {
			continue
		}
		lock, ok := e.Diagnostic.Lock()
		want := api.StateLock{
			ID: "71a9d75f-f093-8dfb-eff5-d21ebd1d855d", Who: "root@vm",
			Created: time.Date(2026, 11, 30, 9, 4, 59, 772497702, time.UTC),
		}
		if diff := cmp.Diff(want, lock); !ok || diff != "" {
			t.Errorf("ok %v, lock (-want +got):\n%s", ok, diff)
		}
		return
	}
	t.Fatal("no diagnostic was found")
}

func TestDiagnostic_Lock_is_for_the_conflict_only(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		in     Diagnostic
		unsure bool
	}{
		{"another error", Diagnostic{Summary: "Error loading state", Detail: "ID: 1\nWho: me"}, false},
		{"a lock that cannot be written", Diagnostic{Summary: lockSummary, Detail: "Error message: AccessDenied"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if lock, ok := tt.in.Lock(); ok {
				t.Errorf("got lock %+v", lock)
			}
			if got := tt.in.LockUnsure(); got != tt.unsure {
				t.Errorf("unsure: %v", got)
			}
		})
	}
}

func TestDiagnostic_Line(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", maxSentenceBytes)
	tests := []struct {
		name string
		in   Diagnostic
		want string
	}{
		{"a summary", Diagnostic{Summary: "creating EC2 VPC: VpcLimitExceeded"}, "creating EC2 VPC: VpcLimitExceeded"},
		{
			"summary, address and the first two sentences",
			Diagnostic{Summary: "Bad\nthing", Address: "aws_vpc.this", Detail: "One is\nthis. Two is that. Three is left out."},
			"Bad thing (aws_vpc.this): One is this. Two is that.",
		},
		{"a long sentence is cut between characters", Diagnostic{Summary: "S", Detail: long}, "S: " + strings.Repeat("ä", maxSentenceBytes/2) + "…"},
		{"a dot within a word ends nothing", Diagnostic{Summary: "S", Detail: "api.example.org is down"}, "S: api.example.org is down"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.in.Line()); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTracker(t *testing.T) {
	t.Parallel()
	summary := func(op Operation, add, change, remove int) Event {
		return Event{Kind: KindChangeSummary, Summary: &Summary{Operation: op, Add: add, Change: change, Remove: remove}}
	}
	event := func(k Kind, address, action string) Event { return Event{Kind: k, Address: address, Action: action} }
	tests := []struct {
		name        string
		events      []Event
		want        api.Progress
		wantChanges api.Changes
	}{
		{
			"a replacement is two changes",
			[]Event{
				summary(OperationPlan, 1, 0, 1),
				event(KindApplyStart, "a", "delete"), event(KindApplyComplete, "a", "delete"),
				event(KindApplyStart, "a", "create"), event(KindApplyComplete, "a", "create"),
			},
			api.Progress{Done: 2, Total: 2},
			api.Changes{Add: 1, Remove: 1},
		},
		{
			"a data source that is read counts for nothing",
			[]Event{summary(OperationPlan, 1, 0, 0), event(KindApplyStart, "data.d", "read"), event(KindApplyComplete, "data.d", "read")},
			api.Progress{Total: 1},
			api.Changes{},
		},
		{
			"what started first is current, in whatever order the others end",
			[]Event{
				summary(OperationPlan, 3, 0, 0),
				event(KindApplyStart, "slow", "create"), event(KindApplyStart, "b", "create"), event(KindApplyStart, "c", "create"),
				event(KindApplyComplete, "c", "create"), event(KindApplyComplete, "b", "create"),
			},
			api.Progress{Done: 2, Total: 3, Current: "slow"},
			api.Changes{Add: 2},
		},
		{
			"the summary of an apply has the last word",
			[]Event{summary(OperationPlan, 1, 0, 2), event(KindApplyComplete, "a", "create"), event(KindApplyComplete, "b", "delete"), summary(OperationApply, 1, 0, 2)},
			api.Progress{Done: 3, Total: 3},
			api.Changes{Add: 1, Remove: 2},
		},
		{
			"an update",
			[]Event{summary(OperationPlan, 0, 1, 0), event(KindApplyComplete, "a", "update")},
			api.Progress{Done: 1, Total: 1},
			api.Changes{Change: 1},
		},
		{
			"more completions than the plan promised do not exceed it",
			[]Event{summary(OperationPlan, 1, 0, 0), event(KindApplyComplete, "a", "create"), event(KindApplyComplete, "b", "create")},
			api.Progress{Done: 1, Total: 1},
			api.Changes{Add: 2},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var tracker Tracker
			for _, e := range tt.events {
				tracker.Observe(e)
			}
			if diff := cmp.Diff(tt.want, tracker.Progress()); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantChanges, tracker.Changes()); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParse_never_shows_what_it_cannot_read(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     Event
	}{
		{"text", "  Successfully configured\r", Event{Kind: KindText, Text: "Successfully configured"}},
		{"torn JSON", `{"type":"outputs","outputs":{"password":{"value":"hunter2"`, Event{Kind: KindUnreadable}},
		{"JSON of another kind", `{"password":"hunter2"}`, Event{Kind: KindUnreadable}},
		{"outputs", `{"type":"outputs","@message":"Outputs: 1","outputs":{"password":{"value":"hunter2"}}}`, Event{Kind: KindOutputs, Text: "Outputs: 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Parse([]byte(tt.in))); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriter_has_no_limit_and_no_errors(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3<<20)
	line, err := json.Marshal(map[string]string{"type": "log", "@message": long})
	if err != nil {
		t.Fatal(err)
	}
	var got []Event
	w := NewWriter(func(e Event) { got = append(got, e) })
	for _, part := range [][]byte{line[:10], line[10 : 1<<20], line[1<<20:], []byte("\n\n{\"type\":\"log\",\"@message\":\"last\"}")} {
		if n, err := w.Write(part); n != len(part) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	w.Flush()
	want := []Event{{Kind: KindLog, Text: long}, {Kind: KindLog, Text: "last"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events differ (%d of them)", len(got))
	}
}

// FuzzWriter feeds arbitrary output, in two pieces, to the whole package.
func FuzzWriter(f *testing.F) {
	for _, name := range []string{"plan.jsonl", "apply-fails.jsonl", "locked.jsonl"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			f.Add([]byte(line), 20)
		}
	}
	f.Add([]byte(`{"type":"change_summary","changes":{"add":-1,"operation":"plan"}}`), 3)
	f.Add([]byte(`{"type":"apply_progress","hook":{"elapsed_seconds":1e300}}`), 3)
	f.Add([]byte(`{"type":"diagnostic","diagnostic":{"summary":"Error acquiring the state lock","detail":"ID: x\nCreated: y"}}`), 3)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		var whole, pieces []Event
		var tracker Tracker
		w := NewWriter(func(e Event) {
			whole = append(whole, e)
			tracker.Observe(e)
			if d := e.Diagnostic; d != nil {
				if lock, ok := d.Lock(); ok && lock.ID == "" {
					t.Error("a lock without id")
				}
				if strings.ContainsAny(d.Line(), "\n\r") {
					t.Errorf("a line of several lines: %q", d.Line())
				}
			}
			if p := tracker.Progress(); p.Done < 0 || p.Done > p.Total {
				t.Errorf("progress %+v", p)
			}
			if e.Elapsed < 0 {
				t.Errorf("elapsed %v", e.Elapsed)
			}
		})
		_, _ = w.Write(data)
		w.Flush()

		w = NewWriter(func(e Event) { pieces = append(pieces, e) })
		cut = min(max(cut, 0), len(data))
		_, _ = w.Write(data[:cut])
		_, _ = w.Write(data[cut:])
		w.Flush()
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Errorf("cut at %d (-whole +pieces):\n%s", cut, diff)
		}
	})
}
