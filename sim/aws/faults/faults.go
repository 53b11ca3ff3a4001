// Package faults decides which calls of the simulated AWS go wrong, and how.
//
// A Fault names the calls that it is for and one thing that happens to them:
// an error in place of the answer, a delay, a connection that drops before the
// call was carried out, or one that drops after it (the answer is lost). Faults
// are data: they come from a test or as JSON over the gateway's admin endpoint.
package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/aws/protocol"
)

// Kind is what a fault does to a call.
type Kind string

// The kinds.
const (
	KindError      Kind = "error"       // answer with Fault.Error, do nothing
	KindDelay      Kind = "delay"       // wait for Fault.Delay, then go on
	KindDrop       Kind = "drop"        // close the connection, do nothing
	KindLostAnswer Kind = "lost_answer" // carry the call out, then close the connection
)

// Always as Fault.Times lets a fault act until it is cleared.
const Always = -1

// Fault is one thing that goes wrong. Empty selectors match every call.
//
// Go's HTTP client, hence also Terraform and the SDK, silently repeats a GET or
// HEAD once when a kept-alive connection drops: such a call counts twice.
type Fault struct {
	ID          string          `json:"id,omitempty"`            // set by Add when empty
	Service     string          `json:"service,omitempty"`       // "ec2", "s3", "eks", …
	Operation   string          `json:"operation,omitempty"`     // "CreateVpc", "PutObject", …
	AccessKeyID string          `json:"access_key_id,omitempty"` // whose calls
	Resource    string          `json:"resource,omitempty"`      // a part of the request's path, e.g. an object's key; of parameters' names in SSM
	Nth         int             `json:"nth,omitempty"`           // the first matching call that it acts on; 0 and 1: the next one
	Times       int             `json:"times,omitempty"`         // how many calls it acts on; 0: one; Always: all
	Kind        Kind            `json:"kind"`
	Error       *protocol.Error `json:"error,omitempty"`
	Delay       Duration        `json:"delay,omitempty"`
}

// Duration is a time.Duration that JSON has as "1.5s".
type Duration time.Duration

// MarshalText writes d as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what Go writes.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// Call is what a fault is matched with.
type Call struct {
	Service     string
	Operation   string
	AccessKeyID string
	Resource    string
}

// State is a fault with how often it has matched and acted.
type State struct {
	Fault

	Matched int `json:"matched"`
	Fired   int `json:"fired"`
}

// Set is a list of faults. Its methods may be called concurrently.
type Set struct {
	mu     sync.Mutex
	next   int
	faults []*State
}

// ErrInvalid says that a fault cannot act.
var ErrInvalid = errors.New("invalid fault")

// Add validates f, adds it and returns its id.
func (s *Set) Add(f Fault) (string, error) {
	switch f.Kind {
	case KindError:
		if f.Error == nil || f.Error.Code == "" || f.Error.Status < 300 || f.Error.Status > 599 {
			return "", fmt.Errorf("%w: kind %s needs an error with a code and a status from 300 to 599", ErrInvalid, f.Kind)
		}
	case KindDelay:
		if f.Delay <= 0 {
			return "", fmt.Errorf("%w: kind %s needs a delay", ErrInvalid, f.Kind)
		}
	case KindDrop, KindLostAnswer:
	default:
		return "", fmt.Errorf("%w: kind is none of %s, %s, %s, %s", ErrInvalid, KindError, KindDelay, KindDrop, KindLostAnswer)
	}
	if f.Nth < 0 || f.Times < Always {
		return "", fmt.Errorf("%w: nth or times is negative", ErrInvalid)
	}
	f.Nth = max(f.Nth, 1)
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.ID == "" {
		s.next++
		f.ID = fmt.Sprintf("fault-%d", s.next)
	}
	if slices.ContainsFunc(s.faults, func(o *State) bool { return o.ID == f.ID }) {
		return "", fmt.Errorf("%w: id %s is taken", ErrInvalid, f.ID)
	}
	s.faults = append(s.faults, &State{Fault: f})
	return f.ID, nil
}

// List returns all faults, those that are used up among them, oldest first.
func (s *Set) List() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]State, 0, len(s.faults))
	for _, f := range s.faults {
		out = append(out, *f)
	}
	return out
}

// Remove takes one fault away and says whether it was there.
func (s *Set) Remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.faults)
	s.faults = slices.DeleteFunc(s.faults, func(f *State) bool { return f.ID == id })
	return len(s.faults) < n
}

// Clear takes all faults away.
func (s *Set) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Match counts the call with every fault that is for it and returns those that
// act on it now: any number of delays, and at most one of the others.
func (s *Set) Match(c Call) []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Fault
	ended := false
	for _, f := range s.faults {
		if !f.selects(c) {
			continue
		}
		f.Matched++
		if f.Matched < f.Nth || f.Times != Always && f.Fired >= f.Times {
			continue
		}
		if f.Kind != KindDelay {
			if ended {
				continue
			}
			ended = true
		}
		f.Fired++
		out = append(out, f.Fault)
	}
	return out
}

func (f *Fault) selects(c Call) bool {
	return (f.Service == "" || f.Service == c.Service) &&
		(f.Operation == "" || f.Operation == c.Operation) &&
		(f.AccessKeyID == "" || f.AccessKeyID == c.AccessKeyID) &&
		strings.Contains(c.Resource, f.Resource)
}
