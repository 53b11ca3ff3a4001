package leftovers

import (
	"fmt"
	"strings"
)

// Kind is what sort of thing a leftover is, in words.
type Kind string

// The kinds of leftovers.
const (
	KindBalancer         Kind = "load balancer"
	KindClassicBalancer  Kind = "classic load balancer"
	KindTargetGroup      Kind = "target group"
	KindSecurityGroup    Kind = "security group"
	KindNetworkInterface Kind = "network interface"
	KindVolume           Kind = "volume"
	KindSnapshot         Kind = "snapshot"
	KindVPC              Kind = "VPC" // which Terraform has destroyed
)

// Remaining is a leftover that could not be removed.
type Remaining struct {
	Kind   Kind
	ID     string // as AWS's console has it
	Reason string // in words
	Action string // what to do about it, in words
}

func (r Remaining) String() string {
	return fmt.Sprintf("%s %s: %s (%s)", r.Kind, r.ID, r.Reason, r.Action)
}

// RemainingError names all that could not be removed; it is never empty.
type RemainingError struct{ Remaining []Remaining }

// maxNamed keeps the text readable where hundreds remain.
const maxNamed = 10

// Error names the first ten.
func (e *RemainingError) Error() string {
	var list []string
	for i, r := range e.Remaining {
		if i == maxNamed {
			list = append(list, fmt.Sprintf("and %d more", len(e.Remaining)-maxNamed))
			break
		}
		list = append(list, r.String())
	}
	return "cannot remove what the cluster made in AWS: " + strings.Join(list, "; ")
}

// remaining is nil if nothing remains.
func remaining(list []Remaining) error {
	if len(list) == 0 {
		return nil
	}
	return &RemainingError{Remaining: list}
}
