package faults_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	call := faults.Call{Service: "s3", Operation: "PutObject", AccessKeyID: "AKIA1", Resource: "/state/terraform.tfstate.tflock"}
	const yes, no = true, false
	tests := []struct {
		name  string
		fault faults.Fault
		want  []bool // for the first calls
	}{
		{name: "the next call", fault: faults.Fault{}, want: []bool{yes, no, no}},
		{name: "the second", fault: faults.Fault{Nth: 2}, want: []bool{no, yes, no}},
		{name: "two from the second", fault: faults.Fault{Nth: 2, Times: 2}, want: []bool{no, yes, yes, no}},
		{name: "all", fault: faults.Fault{Times: faults.Always}, want: []bool{yes, yes, yes}},
		{name: "all from the third", fault: faults.Fault{Nth: 3, Times: faults.Always}, want: []bool{no, no, yes, yes}},
		{name: "of this service", fault: faults.Fault{Service: "s3"}, want: []bool{yes}},
		{name: "of another service", fault: faults.Fault{Service: "ec2"}, want: []bool{no}},
		{name: "of another operation", fault: faults.Fault{Operation: "GetObject"}, want: []bool{no}},
		{name: "of another key", fault: faults.Fault{AccessKeyID: "AKIA2"}, want: []bool{no}},
		{name: "of this resource", fault: faults.Fault{Resource: ".tflock"}, want: []bool{yes}},
		{name: "of another resource", fault: faults.Fault{Resource: "other"}, want: []bool{no}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s faults.Set
			tt.fault.Kind = faults.KindDrop
			if _, err := s.Add(tt.fault); err != nil {
				t.Fatal(err)
			}
			var got []bool
			for range tt.want {
				got = append(got, len(s.Match(call)) == 1)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of two faults that end a call the first acts; the other keeps its turn.
func TestMatchEndsACallOnce(t *testing.T) {
	t.Parallel()
	var s faults.Set
	for _, f := range []faults.Fault{
		{ID: "drop", Kind: faults.KindDrop},
		{ID: "lost", Kind: faults.KindLostAnswer},
		{ID: "slow", Kind: faults.KindDelay, Delay: faults.Duration(time.Second), Times: faults.Always},
	} {
		if _, err := s.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	var got [][]string
	for range 3 {
		var ids []string
		for _, f := range s.Match(faults.Call{}) {
			ids = append(ids, f.ID)
		}
		got = append(got, ids)
	}
	if diff := cmp.Diff([][]string{{"drop", "slow"}, {"lost", "slow"}, {"slow"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !s.Remove("slow") || s.Remove("slow") || len(s.List()) != 2 {
		t.Errorf("left: %+v", s.List())
	}
	s.Clear()
	if len(s.List()) != 0 {
		t.Errorf("left: %+v", s.List())
	}
}

func TestAddRefusesWhatCannotAct(t *testing.T) {
	t.Parallel()
	var s faults.Set
	if _, err := s.Add(faults.Fault{ID: "taken", Kind: faults.KindDrop}); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]faults.Fault{
		"no kind":         {},
		"no error":        {Kind: faults.KindError},
		"no code":         {Kind: faults.KindError, Error: &protocol.Error{Status: 400}},
		"a good status":   {Kind: faults.KindError, Error: &protocol.Error{Status: 200, Code: "X"}},
		"no delay":        {Kind: faults.KindDelay},
		"negative times":  {Kind: faults.KindDrop, Times: -2},
		"negative number": {Kind: faults.KindDrop, Nth: -1},
		"an id twice":     {ID: "taken", Kind: faults.KindDrop},
	} {
		if _, err := s.Add(f); !errors.Is(err, faults.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
