package run

import (
	"fmt"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/tfrunner/internal/events"
)

// title is a phase in words.
func title(p api.Phase) string {
	switch p {
	case api.PhasePreparingState:
		return "preparing the Terraform state"
	case api.PhaseInit:
		return "initialising Terraform"
	case api.PhasePlan:
		return "planning"
	case api.PhaseUnlock:
		return "removing the lock of the state"
	case api.PhaseCleanUp:
		return "removing what the cluster has made by itself"
	case api.PhaseApply:
		return "applying"
	case api.PhaseDestroy:
		return "destroying"
	case api.PhaseWaitingForControlPlane:
		return "waiting for the control plane"
	case api.PhaseWaitingForNodes:
		return "waiting for the control-plane nodes"
	case api.PhasePublishing:
		return "publishing the result"
	default: // a phase of somebody else's, or one that needs no other words
		return runner.Title(p)
	}
}

func planned(c *api.Changes) string {
	if c == nil {
		c = &api.Changes{}
	}
	return fmt.Sprintf("%d to add, %d to change, %d to destroy", c.Add, c.Change, c.Remove)
}

func applied(c *api.Changes) string {
	if c == nil {
		c = &api.Changes{}
	}
	return fmt.Sprintf("%d added, %d changed, %d removed", c.Add, c.Change, c.Remove)
}

// reminder is how often a resource that takes long gets a line.
const reminder = time.Minute

// Line is an event's line in the log; empty for events that get none. Outputs
// are among those: their values may be secrets.
func Line(phase api.Phase, e events.Event, p api.Progress) string {
	switch e.Kind {
	case events.KindDiagnostic:
		return diagnosticLine(e.Diagnostic)
	case events.KindPlannedChange, events.KindDrift:
		if phase == api.PhaseApply || phase == api.PhaseDestroy {
			return "" // an apply begins by repeating its plan
		}
		return e.Text
	case events.KindApplyComplete:
		if e.Action == "read" {
			return "" // a data source
		}
		return fmt.Sprintf("[%d/%d] %s", p.Done, p.Total, e.Text)
	case events.KindApplyProgress:
		// Terraform sends these every 10 s.
		if e.Elapsed%reminder >= 10*time.Second || e.Elapsed < reminder {
			return ""
		}
		return e.Text
	case events.KindVersion:
		if phase != api.PhaseInit {
			return "" // every command begins with it
		}
		return e.Text
	case events.KindApplyErrored, events.KindChangeSummary, events.KindInit,
		events.KindLog, events.KindProvisionProgress, events.KindText:
		return e.Text
	case events.KindUnreadable, events.KindOutputs, events.KindApplyStart:
	}
	return ""
}

func diagnosticLine(d *events.Diagnostic) string {
	if d == nil {
		return ""
	}
	kind := "warning"
	if d.Error {
		kind = "error"
	}
	text := kind + ": " + d.Summary
	if d.Address != "" {
		text += " (" + d.Address + ")"
	}
	if d.Detail != "" {
		text += "\n" + d.Detail
	}
	return text
}
