package runcontract_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

func TestCompactFitsTheTerminationMessageAndParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 3000, -1)
		result := runcontract.Result{
			Outcome:   runcontract.OutcomeFailed,
			Phase:     api.PhaseApply,
			ErrorCode: runcontract.CodeTerraformApply,
			Message:   text.Draw(t, "message") + strings.Repeat("\"\\\n", rapid.IntRange(0, 2000).Draw(t, "escapes")),
			Diagnostic: &runcontract.Diagnostic{
				Summary: text.Draw(t, "summary"), Detail: text.Draw(t, "detail"), Address: text.Draw(t, "address"),
			},
		}
		compact := result.Compact()
		if len(compact) > runcontract.TerminationMessageLimit {
			t.Fatalf("%d bytes", len(compact))
		}
		var back runcontract.Result
		if err := json.Unmarshal(compact, &back); err != nil {
			t.Fatal(err)
		}
		if back.Outcome != result.Outcome || back.ErrorCode != result.ErrorCode || back.Phase != result.Phase {
			t.Errorf("lost a code: %+v", back)
		}
		if !utf8.ValidString(back.Message) || !strings.HasPrefix(strings.ToValidUTF8(result.Message, "\uFFFD"), back.Message) {
			t.Errorf("the message is not a prefix of the original")
		}
	})
}

func TestCompactKeepsAShortResultWhole(t *testing.T) {
	want := runcontract.Result{
		Outcome: runcontract.OutcomeSucceeded, Phase: api.PhaseDone, Message: "applied",
		Changes: &api.Changes{Add: 3, Change: 1},
	}
	var got runcontract.Result
	if err := json.Unmarshal(want.Compact(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
