package joinfault

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// Schedule is the shape of a cluster and what goes wrong while it is made.
type Schedule struct {
	Seed          uint64 // also of everything else that is drawn, such as how long a call takes
	ControlPlanes int
	Workers       int
	DNS           time.Duration // when the load balancer's name begins to resolve
	Balancer      time.Duration // from when an API server answers until the load balancer knows
	Unseen        time.Duration // how long EC2 does not find an instance that is new
	Skew          map[int]time.Duration
	Override      string // more lines of bootstrap.override
	Faults        []Fault
}

// skew is how fast the clock of the nth machine is.
func (s Schedule) skew(n int) time.Duration { return s.Skew[n] }

// Kind is what a fault does.
type Kind string

// The kinds.
const (
	Kill     Kind = "kill"               // kill -9 all scripts of the node
	Reboot   Kind = "reboot"             // cut the node's power for a while
	Twice    Kind = "start twice"        // start the node's script once more
	Replace  Kind = "replace"            // terminate the node, launch another for its place
	Token    Kind = "expire token"       // all join tokens end
	Shared   Kind = "expire certificate" // the shared certificates end
	Balancer Kind = "balancer"           // the load balancer answers nobody for a while
	Requests Kind = "requests"           // an outage of AWS
)

// Fault is one thing that goes wrong. Its node is the machine that then has the
// place of the nth that was launched at first: control planes by index, then workers.
type Fault struct {
	Kind Kind
	Node int
	At   time.Duration
	When *Trigger // in place of At

	For time.Duration // of Balancer

	// Of Replace: how long the old machine goes on while it shuts down, and when the
	// new one is launched. Unaware: EC2 has it as running until it is gone.
	Linger  time.Duration
	Launch  time.Duration
	Unaware bool

	Request faults.Fault // of Requests; a machine's access key is its id
}

// Trigger is a moment in what a node does: so long after it begins its Nth call whose
// label begins so. Labels are the commands without their options, and "put <name>" and
// "get <name>" of parameters; "vote" is when it gets its vote in etcd.
type Trigger struct {
	Node  int
	Call  string // empty: every call
	Nth   int    // from 1
	After time.Duration
}

func (t Trigger) String() string {
	call := "call"
	if t.Call != "" {
		call = fmt.Sprintf("%q", t.Call)
	}
	return fmt.Sprintf("%s after node %d begins %s no. %d", t.After.Round(time.Millisecond), t.Node, call, t.Nth)
}

func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", f.Kind)
	if f.Kind == Kill || f.Kind == Reboot || f.Kind == Twice || f.Kind == Replace {
		fmt.Fprintf(&b, " node %d", f.Node)
	}
	if f.When != nil {
		fmt.Fprintf(&b, " %s", f.When)
	} else {
		fmt.Fprintf(&b, " at %s", f.At.Round(time.Second))
	}
	switch f.Kind {
	case Kill, Reboot, Twice, Token, Shared:
	case Balancer:
		fmt.Fprintf(&b, " for %s", f.For.Round(time.Second))
	case Replace:
		fmt.Fprintf(&b, "; the old one is gone after %s, the new one comes after %s", f.Linger.Round(time.Second), f.Launch.Round(time.Second))
		if f.Unaware {
			b.WriteString("; EC2 takes the old one for running until then")
		}
	case Requests:
		fmt.Fprintf(&b, ": %s %d times for %s %s %s", f.Request.Kind, f.Request.Times, f.Request.Service, f.Request.Operation, f.Request.Resource)
		if f.Request.AccessKeyID != "" {
			fmt.Fprintf(&b, " of %s", f.Request.AccessKeyID)
		}
		if f.Request.Error != nil {
			fmt.Fprintf(&b, " with %s", f.Request.Error.Code)
		}
	}
	return b.String()
}

func (s Schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d control planes, %d workers; DNS after %s, load balancer after %s, EC2 finds new instances after %s; clocks %v\n",
		s.Seed, s.ControlPlanes, s.Workers, s.DNS.Round(time.Second), s.Balancer.Round(time.Second), s.Unseen.Round(time.Second), s.Skew)
	for _, f := range s.Faults {
		fmt.Fprintf(&b, "  %s\n", f)
	}
	return b.String()
}

// horizon is when the last of the faults that have a time comes.
const horizon = 40 * time.Minute

// targets are calls at which a script that dies leaves most behind.
var targets = []string{
	"kubeadm init", "kubeadm join", "kubeadm reset", "put cluster_state", "put control_plane_joined", "put join_turns", "put init_claims",
	"put join_token", "put ca_cert_hash", "put admin_kubeconfig", "put bootstrap_status", "kubectl kube-system exec", "systemctl enable", "vote",
}

// Draw draws a schedule.
func Draw(seed uint64) Schedule {
	d := drawer{rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // the same seed is to give the same schedule
	s := Schedule{Seed: seed, ControlPlanes: 3, Workers: 1 + d.IntN(2), Skew: map[int]time.Duration{}}
	if d.chance(0.3) {
		s.ControlPlanes = 5
	}
	nodes := s.ControlPlanes + s.Workers
	if d.chance(0.5) {
		s.DNS = d.duration(15 * time.Minute)
	}
	s.Balancer = d.duration(5 * time.Minute)
	if d.chance(0.3) {
		s.Unseen = d.duration(3 * time.Minute)
	}
	if d.chance(0.4) {
		for n := range nodes {
			s.Skew[n] = d.duration(time.Minute) - 30*time.Second
		}
	}
	for range 2 + d.IntN(6) {
		s.Faults = append(s.Faults, d.fault(s))
	}
	return s
}

type drawer struct{ *rand.Rand }

func (d drawer) chance(p float64) bool { return d.Float64() < p }

func (d drawer) duration(below time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(below)))
}

func (d drawer) fault(s Schedule) Fault {
	f := Fault{Node: d.IntN(s.ControlPlanes + s.Workers), At: d.duration(horizon)}
	switch n := d.IntN(100); {
	case n < 40:
		f.Kind, f.When = Kill, d.trigger(s, f.Node)
	case n < 55:
		f.Kind = Reboot
		if d.chance(0.5) {
			f.When = d.trigger(s, f.Node)
		}
	case n < 62:
		f.Kind = Twice
	case n < 75:
		f.Kind, f.Node = Replace, d.IntN(s.ControlPlanes)
		if d.chance(0.5) {
			f.Node = 2 * d.IntN(2)
		}
		if d.chance(0.3) {
			f.When = d.trigger(s, f.Node)
		}
		f.Linger, f.Launch = d.duration(5*time.Minute), d.duration(6*time.Minute)
		f.Unaware = d.chance(0.2)
	case n < 80:
		f.Kind = Token
	case n < 84:
		f.Kind = Shared
	case n < 88:
		f.Kind, f.For = Balancer, d.duration(15*time.Minute)
	default:
		f.Kind, f.Request = Requests, d.request(s)
	}
	return f
}

// trigger is a moment of the node itself, or of another.
func (d drawer) trigger(s Schedule, node int) *Trigger {
	t := &Trigger{Node: node, Nth: 1 + d.IntN(60)}
	if d.chance(0.2) {
		t.Node = d.IntN(s.ControlPlanes + s.Workers)
	}
	if d.chance(0.6) {
		t.Call, t.Nth = targets[d.IntN(len(targets))], 1+d.IntN(3)
	}
	if d.chance(0.7) {
		t.After = d.duration(2 * time.Second)
	}
	if strings.HasPrefix(t.Call, "kubeadm") {
		t.After = d.duration(90 * time.Second)
	}
	return t
}

// request is an outage of some seconds or minutes: so many requests in a row.
func (d drawer) request(s Schedule) faults.Fault {
	f := faults.Fault{Service: "ssm", Times: 1 + d.IntN(40), Kind: faults.KindError}
	if d.chance(0.2) {
		f.Service = "ec2"
	}
	if d.chance(0.3) {
		f.Operation = "PutParameter"
	}
	if d.chance(0.3) {
		f.AccessKeyID = instanceID(d.IntN(s.ControlPlanes + s.Workers))
	}
	switch d.IntN(5) {
	case 0:
		f.Error = &protocol.Error{Status: http.StatusInternalServerError, Code: "InternalServerError", Message: "An error occurred on the server side."}
	case 1:
		f.Kind = faults.KindLostAnswer
	case 2:
		f.Kind = faults.KindDrop
	case 3:
		f.Kind, f.Delay, f.Times = faults.KindDelay, faults.Duration(d.duration(2*time.Minute)), 1+d.IntN(12)
	default:
		f.Error = &protocol.Error{Status: http.StatusBadRequest, Code: "ThrottlingException", Message: "Rate exceeded"}
	}
	return f
}

func instanceID(n int) string { return fmt.Sprintf("i-%017x", 0xa0+n) }
