// Package guard refuses plans that would take down what a running cluster
// stands on: its network, its control plane, the load balancer in front of it.
// A control-plane node that is gone already is not replaced but created, and may be.
//
// Terraform replaces such things when an input changes that cannot change in
// place. A caller who wants that says so; by mistake it must not happen.
package guard

import (
	"fmt"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// Violation is a change that needs the caller's consent.
type Violation struct {
	Address string
	What    string // in words: "the VPC"
	Action  string // "delete" or "replace"
}

// String is the violation in words.
func (v Violation) String() string { return fmt.Sprintf("%s %s (%s)", v.Action, v.What, v.Address) }

// Check lists the changes of a plan that would delete or replace what must stay.
func Check(plan *tfjson.Plan) []Violation {
	var found []Violation
	for _, rc := range plan.ResourceChanges {
		if rc == nil || rc.Change == nil || rc.Mode != tfjson.ManagedResourceMode {
			continue
		}
		// Its creation never finished: nothing stands on it yet, and a retry
		// could not go on if its replacement were refused.
		if rc.ActionReason == tfjson.ActionReasonReplaceBecauseTainted {
			continue
		}
		// A deposed object is what an earlier replacement left behind; its successor is in place.
		if rc.DeposedKey != "" {
			continue
		}
		action, ends := ending(rc.Change.Actions)
		what := protected(rc)
		if !ends || what == "" {
			continue
		}
		found = append(found, Violation{Address: rc.Address, What: what, Action: action})
	}
	return found
}

func ending(a tfjson.Actions) (action string, ends bool) {
	switch {
	case a.Replace():
		return "replace", true
	case a.Delete():
		return "delete", true
	}
	return "", false
}

// protected names what a resource is to its cluster; empty if it may go.
func protected(rc *tfjson.ResourceChange) string {
	switch rc.Type {
	case "aws_vpc":
		return "the VPC"
	case "aws_eks_cluster":
		return "the EKS cluster"
	case "aws_lb":
		return "the load balancer"
	case "aws_instance":
		if strings.HasPrefix(rc.Name, "control_plane") {
			return "a control-plane node"
		}
	case "aws_ssm_parameter":
		// A new one is empty. A first node that is replaced later would then take
		// its cluster for one that was never made, and make another.
		return "what the cluster's nodes know of it"
	}
	return ""
}
