package cluster

import (
	"errors"
	"slices"
	"time"

	"github.com/kubeopera/platform/sim/machine/guest"
)

// What etcd says, in its own words.
var (
	ErrNotFound    = errors.New("etcdserver: member not found")
	ErrTooMany     = errors.New("etcdserver: too many learner members in cluster")
	ErrPeerExists  = errors.New("etcdserver: Peer URLs already exists")
	ErrNotInSync   = errors.New("etcdserver: can only promote a learner member which is in sync with leader")
	ErrNotLearner  = errors.New("etcdserver: can only promote a learner member")
	ErrUnhealthy   = errors.New("etcdserver: unhealthy cluster")
	ErrUnavailable = errors.New("context deadline exceeded")
)

// syncTime is how long a learner takes to catch up.
const syncTime = 500 * time.Millisecond

// Running tells that a machine's etcd runs with a member's data, or no longer
// runs. It returns whether it may: a member that was removed stops by itself.
func (c *Cluster) Running(machine, node, memberID string, running bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(memberID)
	if m == nil {
		return false
	}
	if !running {
		if m.machine == machine {
			m.since = time.Time{}
		}
		return true
	}
	m.machine, m.Name, m.Started = machine, node, true
	if m.since.IsZero() {
		m.since = time.Now()
	}
	return true
}

func (c *Cluster) find(id string) *member {
	i := slices.IndexFunc(c.members, func(m *member) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return c.members[i]
}

// quorum tells whether the majority of the voting members runs. mu is held.
func (c *Cluster) quorum() bool {
	voting, running := 0, 0
	for _, m := range c.members {
		if m.Learner {
			continue
		}
		voting++
		if !m.since.IsZero() {
			running++
		}
	}
	return running > voting/2
}

// Up tells whether the API server of a machine with this member could serve.
func (c *Cluster) Up(memberID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(memberID)
	return m != nil && !m.Learner && !m.since.IsZero() && c.quorum()
}

// Members lists the members, as long as etcd can.
func (c *Cluster) Members() ([]guest.Member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.quorum() {
		return nil, ErrUnavailable
	}
	return c.list(), nil
}

// AllMembers lists the members whatever state etcd is in.
func (c *Cluster) AllMembers() []guest.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list()
}

func (c *Cluster) list() []guest.Member {
	list := make([]guest.Member, len(c.members))
	for i, m := range c.members {
		list[i] = m.Member
		list[i].Healthy = !m.since.IsZero()
		if !m.Started {
			list[i].Name = "" // etcd learns it from the member itself
		}
	}
	return list
}

// Add adds a learner: etcd takes one at a time.
func (c *Cluster) Add(peerURL string) (guest.Member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.quorum() {
		return guest.Member{}, ErrUnavailable
	}
	for _, m := range c.members {
		switch {
		case m.PeerURL == peerURL:
			return guest.Member{}, ErrPeerExists
		case m.Learner:
			return guest.Member{}, ErrTooMany
		}
	}
	m := &member{Member: guest.Member{ID: c.nextID(), PeerURL: peerURL, Learner: true}}
	c.members = append(c.members, m)
	return m.Member, nil
}

// Promote gives a learner a vote once it has caught up.
func (c *Cluster) Promote(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(id)
	switch {
	case m == nil:
		return ErrNotFound
	case !c.quorum():
		return ErrUnavailable
	case !m.Learner:
		return ErrNotLearner
	case m.since.IsZero() || time.Since(m.since) < syncTime:
		return ErrNotInSync
	}
	m.Learner = false
	return nil
}

// Remove takes a member out. etcd refuses if those that are left and run would
// be no majority.
func (c *Cluster) Remove(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(id)
	switch {
	case m == nil:
		return ErrNotFound
	case !c.quorum():
		return ErrUnavailable
	}
	rest := slices.DeleteFunc(slices.Clone(c.members), func(other *member) bool { return other == m })
	before := c.members
	c.members = rest
	if len(rest) > 0 && !m.Learner && !c.quorum() {
		c.members = before
		return ErrUnhealthy
	}
	return nil
}
