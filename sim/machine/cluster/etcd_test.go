package cluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubeopera/platform/sim/machine/guest"
)

// newEtcd has one member, which runs on machine "one".
func newEtcd(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{}
	first := &member{Member: guest.Member{ID: c.nextID(), Name: "one", PeerURL: "https://10.0.0.1:2380"}, machine: "one"}
	c.members = []*member{first}
	if !c.Running("one", "one", first.ID, true) {
		t.Fatal("the first member may not run")
	}
	return c
}

// join adds a member with a vote.
func join(t *testing.T, c *Cluster, machine string) string {
	t.Helper()
	added, err := c.Add("https://" + machine + ":2380")
	if err != nil {
		t.Fatal(err)
	}
	c.Running(machine, machine, added.ID, true)
	time.Sleep(syncTime) //nolint:forbidigo // in a bubble, where time is made up
	if err := c.Promote(added.ID); err != nil {
		t.Fatal(err)
	}
	return added.ID
}

func TestEtcdTakesOneLearnerAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newEtcd(t)
		added, err := c.Add("https://two:2380")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Add("https://three:2380"); !errors.Is(err, ErrTooMany) {
			t.Errorf("a second learner: %v", err)
		}
		if _, err := c.Add("https://two:2380"); !errors.Is(err, ErrPeerExists) {
			t.Errorf("the same again: %v", err)
		}
		if err := c.Promote(added.ID); !errors.Is(err, ErrNotInSync) {
			t.Errorf("one that never ran is promoted: %v", err)
		}
		c.Running("two", "two", added.ID, true)
		if err := c.Promote(added.ID); !errors.Is(err, ErrNotInSync) {
			t.Errorf("one that has just begun is promoted: %v", err)
		}
		if c.Up(added.ID) {
			t.Error("a learner serves")
		}
		time.Sleep(syncTime) //nolint:forbidigo // in a bubble, where time is made up
		if err := c.Promote(added.ID); err != nil {
			t.Error(err)
		}
		if !c.Up(added.ID) {
			t.Error("a member with a vote does not serve")
		}
		if err := c.Remove("0"); !errors.Is(err, ErrNotFound) {
			t.Errorf("an unknown member is removed: %v", err)
		}
	})
}

func TestEtcdNeedsAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newEtcd(t)
		first := c.members[0].ID
		two, three := join(t, c, "two"), join(t, c, "three")
		c.Running("three", "three", three, false)
		if !c.Up(first) || c.Up(three) {
			t.Error("with two of three the two serve, and the third does not")
		}
		c.Running("two", "two", two, false)
		if c.Up(first) {
			t.Error("one of three serves")
		}
		for name, err := range map[string]error{
			"list": second(c.Members()), "add": second(c.Add("https://four:2380")), "remove": c.Remove(three),
		} {
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s without a majority: %v", name, err)
			}
		}
		c.Running("two", "two", two, true)
		if err := c.Remove(three); err != nil {
			t.Errorf("the dead member is not removed: %v", err)
		}
		if c.Running("three", "three", three, true) {
			t.Error("a member that was removed runs again")
		}
	})
}

func TestEtcdKeepsItsMajorityWhenAMemberIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newEtcd(t)
		first := c.members[0].ID
		two, three := join(t, c, "two"), join(t, c, "three")
		c.Running("three", "three", three, false)
		if err := c.Remove(two); !errors.Is(err, ErrUnhealthy) {
			t.Errorf("a living member goes although one of the rest is dead: %v", err)
		}
		if !c.Up(first) {
			t.Error("the cluster is down")
		}
	})
}

func second[T any](_ T, err error) error { return err }
