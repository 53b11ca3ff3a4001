package sessionmanager

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

// Kind is what a fault does.
type Kind string

// The kinds that act on frames.
const (
	KindLose      Kind = "lose"      // the frame does not arrive
	KindDuplicate Kind = "duplicate" // it arrives twice
	KindReorder   Kind = "reorder"   // it arrives after the next one
	KindDelay     Kind = "delay"     // it arrives after Delay; others overtake it
	KindCorrupt   Kind = "corrupt"   // it arrives with a wrong digest
	KindCut       Kind = "cut"       // the connection breaks after it
	KindBye       Kind = "bye"       // the service closes the websocket after it (1000, "Bye")
	KindPause     Kind = "pause"     // the agent is away for Delay
	KindClose     Kind = "close"     // the service ends the session with Reason
	KindSlow      Kind = "slow"      // the service reads nothing for Delay; client to agent only
)

// The kinds that act on something else.
const (
	KindOffline      Kind = "offline"       // StartSession: the target is not connected
	KindRefuseResume Kind = "refuse_resume" // ResumeSession: an internal error
	KindRefuseOpen   Kind = "refuse_open"   // the upgrade request: an internal error
	KindEncrypt      Kind = "encrypt"       // the handshake: the agent demands encryption with a KMS key
	KindConnect      Kind = "connect"       // the agent cannot connect to the port and ends the session, as in basic mode
	KindConnectFlag  Kind = "connect_flag"  // it says so with a flag and the session goes on, as when multiplexing
)

// point is where in the life of a session a fault can act.
type point string

const (
	atFrame     point = "frame"
	atStart     point = "start"
	atResume    point = "resume"
	atOpen      point = "open"
	atHandshake point = "handshake"
	atConnect   point = "connect"
)

// points has all kinds.
var points = map[Kind]point{
	KindLose: atFrame, KindDuplicate: atFrame, KindReorder: atFrame, KindDelay: atFrame, KindCorrupt: atFrame,
	KindCut: atFrame, KindBye: atFrame, KindPause: atFrame, KindClose: atFrame, KindSlow: atFrame,
	KindOffline: atStart, KindRefuseResume: atResume, KindRefuseOpen: atOpen,
	KindEncrypt: atHandshake, KindConnect: atConnect, KindConnectFlag: atConnect,
}

// Direction is which way a frame goes.
type Direction string

// The directions.
const (
	ToAgent  Direction = "to_agent"
	ToClient Direction = "to_client"
)

// Always as Fault.Times lets a fault act until it is removed.
const Always = faults.Always

// Fault is one thing that goes wrong. Empty selectors match everything, each
// fault counts what it matches, in all sessions together. To withhold
// acknowledgements, lose frames of type acknowledge.
type Fault struct {
	ID        string          `json:"id,omitempty"`        // set by Add when empty
	Kind      Kind            `json:"kind"`                //
	Session   string          `json:"session,omitempty"`   //
	Target    string          `json:"target,omitempty"`    // instance id
	Direction Direction       `json:"direction,omitempty"` // of frames
	Type      frame.Type      `json:"type,omitempty"`      // of frames
	Nth       int             `json:"nth,omitempty"`       // the first match that it acts on; 0 and 1: the next one
	Every     int             `json:"every,omitempty"`     // from there on every nth match; 0: each
	Seed      uint64          `json:"seed,omitempty"`      // not 0: each match with probability 1/Every, drawn from this seed
	Times     int             `json:"times,omitempty"`     // how often it acts; 0: once, or always if Every is set
	Delay     faults.Duration `json:"delay,omitempty"`
	Reason    string          `json:"reason,omitempty"`
}

// FaultState is a fault with how often it has matched and acted.
type FaultState struct {
	Fault

	Matched int `json:"matched"`
	Fired   int `json:"fired"`

	random *rand.Rand
}

// Faults is a list of faults. Its methods may be called concurrently.
type Faults struct {
	mu   sync.Mutex
	next int
	list []*FaultState
}

// ErrInvalidFault says that a fault cannot act.
var ErrInvalidFault = errors.New("invalid fault")

// Add validates f, adds it and returns its id.
func (s *Faults) Add(f Fault) (string, error) {
	if err := f.check(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalidFault, err)
	}
	if f.Times == 0 {
		f.Times = 1
		if f.Every > 0 {
			f.Times = Always
		}
	}
	f.Nth, f.Every = max(f.Nth, 1), max(f.Every, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.ID == "" {
		s.next++
		f.ID = fmt.Sprintf("fault-%d", s.next)
	}
	if slices.ContainsFunc(s.list, func(o *FaultState) bool { return o.ID == f.ID }) {
		return "", fmt.Errorf("%w: id %s is taken", ErrInvalidFault, f.ID)
	}
	//nolint:gosec // faults are to be the same for the same seed
	s.list = append(s.list, &FaultState{Fault: f, random: rand.New(rand.NewPCG(f.Seed, f.Seed))})
	return f.ID, nil
}

func (f Fault) check() error {
	at, ok := points[f.Kind]
	switch {
	case !ok:
		return fmt.Errorf("there is no kind %q", f.Kind)
	case at != atFrame && (f.Direction != "" || f.Type != ""):
		return fmt.Errorf("kind %s is not about frames", f.Kind)
	case f.Direction != "" && f.Direction != ToAgent && f.Direction != ToClient:
		return fmt.Errorf("direction is none of %s, %s", ToAgent, ToClient)
	case f.Kind == KindSlow && f.Direction != ToAgent:
		return fmt.Errorf("kind %s needs direction %s", f.Kind, ToAgent)
	case slices.Contains([]Kind{KindDelay, KindPause, KindSlow}, f.Kind) != (f.Delay > 0):
		return fmt.Errorf("kinds %s, %s, %s need a delay, the others have none", KindDelay, KindPause, KindSlow)
	case f.Nth < 0 || f.Every < 0 || f.Times < Always:
		return errors.New("nth, every or times is negative")
	case f.Seed != 0 && f.Every < 2:
		return errors.New("a seed needs every to be 2 or more")
	}
	return nil
}

// List returns all faults, those that are used up among them, oldest first.
func (s *Faults) List() []FaultState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]FaultState, 0, len(s.list))
	for _, f := range s.list {
		out = append(out, *f)
	}
	return out
}

// Remove takes one fault away and says whether it was there.
func (s *Faults) Remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.list)
	s.list = slices.DeleteFunc(s.list, func(f *FaultState) bool { return f.ID == id })
	return len(s.list) < n
}

// Clear takes all faults away.
func (s *Faults) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = nil
}

// event is what a fault is matched with.
type event struct {
	point           point
	session, target string
	direction       Direction
	frame           frame.Type
}

// match counts e with every fault that is for it and returns those that act now.
func (s *Faults) match(e event) []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Fault
	for _, f := range s.list {
		if f.selects(e) && f.due() {
			out = append(out, f.Fault)
		}
	}
	return out
}

func (f *FaultState) selects(e event) bool {
	return points[f.Kind] == e.point &&
		(f.Session == "" || f.Session == e.session) &&
		(f.Target == "" || f.Target == e.target) &&
		(f.Direction == "" || f.Direction == e.direction) &&
		(f.Type == "" || f.Type == e.frame)
}

// due counts a match and says whether the fault acts on it.
func (f *FaultState) due() bool {
	f.Matched++
	switch {
	case f.Matched < f.Nth, f.Times != Always && f.Fired >= f.Times:
		return false
	case f.Seed != 0:
		if f.random.IntN(f.Every) != 0 {
			return false
		}
	case (f.Matched-f.Nth)%f.Every != 0:
		return false
	}
	f.Fired++
	return true
}

func (f Fault) delay() time.Duration { return time.Duration(f.Delay) }
