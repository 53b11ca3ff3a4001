package sessionmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"time"
)

// DefaultAgentVersion is what agents say they are, a version whose port
// forwarding is multiplexed.
const DefaultAgentVersion = "3.3.2299.0"

// Dialer connects to a port of an instance, as its agent does to localhost.
type Dialer func(ctx context.Context, instanceID string, port int) (net.Conn, error)

// Machine is an instance whose agent is registered with Systems Manager.
type Machine struct {
	InstanceID   string // required: i-… or mi-…
	Region       string // empty: it is in every region
	Name         string // host name
	Address      netip.Addr
	Platform     string // "Ubuntu", and so on
	Version      string // of the platform
	AgentVersion string // empty: DefaultAgentVersion
	Dial         Dialer // required
}

// registration is a machine with what is known of its agent.
type registration struct {
	Machine
	offline bool
	seen    time.Time
}

var machinePattern = regexp.MustCompile(`^m?i-[0-9a-f]{8,17}$`)

// Register adds a machine, whose agent is online from then on, or replaces the
// one with the same id.
func (s *Service) Register(m Machine) error {
	if !machinePattern.MatchString(m.InstanceID) {
		return fmt.Errorf("register machine: %q is no instance's id", m.InstanceID)
	}
	if m.Dial == nil {
		return fmt.Errorf("register machine %s: no dialer", m.InstanceID)
	}
	if m.AgentVersion == "" {
		m.AgentVersion = DefaultAgentVersion
	}
	s.mu.Lock()
	s.machines[m.InstanceID] = &registration{Machine: m, seen: time.Now()}
	s.mu.Unlock()
	s.present(m.InstanceID, true)
	return nil
}

// Deregister takes a machine away, as when its instance is stopped or terminated:
// its sessions end.
func (s *Service) Deregister(instanceID string) {
	s.mu.Lock()
	delete(s.machines, instanceID)
	s.mu.Unlock()
	s.End(instanceID, "The instance "+instanceID+" is no longer running.")
}

// ErrNoMachine says that no machine with that id is registered.
var ErrNoMachine = errors.New("machine is not registered")

// SetOnline says whether a machine's agent answers. While it does not, no session
// can be started, and those that there are pause.
func (s *Service) SetOnline(instanceID string, online bool) error {
	s.mu.Lock()
	m := s.machines[instanceID]
	if m == nil {
		s.mu.Unlock()
		return fmt.Errorf("%s: %w", instanceID, ErrNoMachine)
	}
	if m.offline && online || !m.offline && !online {
		m.seen = time.Now()
	}
	m.offline = !online
	s.mu.Unlock()
	s.present(instanceID, online)
	return nil
}

// present tells the sessions of a machine that its agent is there or away.
func (s *Service) present(instanceID string, online bool) {
	for _, session := range s.of(instanceID) {
		session.present(online)
	}
}

// registered lists a region's machines by id.
func (s *Service) registered(region string) []registration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []registration
	for _, m := range s.machines {
		if m.Region == "" || m.Region == region {
			list = append(list, *m)
		}
	}
	slices.SortFunc(list, func(a, b registration) int { return cmp.Compare(a.InstanceID, b.InstanceID) })
	return list
}
