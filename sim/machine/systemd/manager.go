package systemd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// The states of a unit as `systemctl is-active` prints them.
const (
	inactive     = "inactive"
	activating   = "activating"
	active       = "active"
	deactivating = "deactivating"
	failed       = "failed"
)

// Config says how the manager runs.
type Config struct {
	Dirs    []string // where unit files are, first wins; enable links into the first
	Journal *Journal
	Env     map[string]string // of every service, below its own
	// Shutdown is called for poweroff and reboot, once all units have stopped.
	Shutdown func(reboot bool)
}

// Manager is the supervisor.
type Manager struct {
	config Config
	booted time.Time

	mu     sync.Mutex
	loaded map[string]*unit // until the next daemon-reload
	states map[string]*state
	closed bool
	wait   sync.WaitGroup // everything that runs
}

// New makes a manager with nothing running.
func New(config Config) *Manager {
	return &Manager{config: config, booted: time.Now(), loaded: map[string]*unit{}, states: map[string]*state{}}
}

// state is a unit as it runs. Its fields are guarded by the manager's mu.
type state struct {
	active   string
	sub      string
	result   string // why it failed; "success" otherwise
	exitCode int
	pid      int
	restarts int
	since    time.Time   // of active
	entered  time.Time   // when it last began to start
	exited   time.Time   // when it was last deactivated
	starts   []time.Time // for the start limit

	stop    context.CancelFunc // asks the running unit to stop; nil if it does not run
	ended   chan struct{}      // closed when it no longer runs
	started chan struct{}      // closed when its start has come to an end, either way; nil without one
	next    time.Time          // of a timer
}

// state finds or makes the state of a unit. mu is held.
func (m *Manager) state(name string) *state {
	s, ok := m.states[name]
	if !ok {
		s = &state{active: inactive, sub: "dead", result: "success", since: m.booted}
		m.states[name] = s
	}
	return s
}

// set changes what the world sees of a unit.
func (m *Manager) set(name, to, sub string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state(name)
	if s.active != to {
		s.since = time.Now()
		if to == inactive || to == failed {
			s.exited = s.since
		}
	}
	s.active, s.sub = to, sub
}

// unit loads a unit, unless it is loaded.
func (m *Manager) unit(name string) (*unit, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u, ok := m.loaded[name]; ok {
		return u, nil
	}
	u, err := loadUnit(m.config.Dirs, name)
	if err != nil {
		return nil, err
	}
	m.loaded[name] = u
	return u, nil
}

// reload forgets what was loaded.
func (m *Manager) reload() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded = map[string]*unit{}
}

func (m *Manager) log(unit, format string, args ...any) {
	m.config.Journal.Add(unit, "systemd", 1, fmt.Sprintf(format, args...))
}

// Reserve makes a unit without a file which counts as starting until done is
// called: units that are ordered after it wait.
func (m *Manager) Reserve(name string) (done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded[name] = &unit{name: name, settings: map[string][]string{}}
	s := m.state(name)
	started := make(chan struct{})
	s.active, s.sub, s.started = activating, "start", started
	return func() {
		m.set(name, active, "exited")
		m.mu.Lock()
		s.started = nil
		m.mu.Unlock()
		close(started)
	}
}

// Boot starts the units that are enabled, and returns when all have come to a
// result. ctx ends the waiting.
func (m *Manager) Boot(ctx context.Context) {
	var all sync.WaitGroup
	var run []func()
	// All count as starting before the first one starts: so each can wait for others.
	for _, name := range m.enabled() {
		started, begin, err := m.begin(name)
		if err != nil {
			m.log(name, "Failed to start %s: %v", name, err)
			continue
		}
		run = append(run, begin)
		all.Go(func() {
			if err := m.await(ctx, name, started); err != nil {
				m.log(name, "Failed to start %s: %v", name, err)
			}
		})
	}
	for _, begin := range run {
		begin()
	}
	all.Wait()
}

// enabled lists what the targets of a boot want.
func (m *Manager) enabled() []string {
	found := map[string]bool{}
	for _, dir := range m.config.Dirs {
		for _, pattern := range []string{"*.target.wants/*", "*.target.requires/*"} {
			paths, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				continue // the pattern is right
			}
			for _, path := range paths {
				found[filepath.Base(path)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// start starts a unit and waits for the result.
func (m *Manager) start(ctx context.Context, name string) error {
	started, begin, err := m.begin(name)
	if err != nil {
		return err
	}
	begin()
	return m.await(ctx, name, started)
}

// begin makes a unit count as starting, unless it runs already. started closes
// when that has come to a result; begin lets it go on.
func (m *Manager) begin(name string) (started <-chan struct{}, begin func(), err error) {
	nothing := make(chan struct{})
	close(nothing)
	u, err := m.unit(name)
	if err != nil {
		switch filepath.Ext(name) {
		case ".target", ".mount", ".slice":
			return nothing, func() {}, nil // those of a boot are reached
		}
		return nil, nil, err
	}
	if masked(u) {
		return nil, nil, fmt.Errorf("unit %s is masked", name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state(name)
	for {
		if m.closed {
			return nil, nil, errors.New("the machine shuts down")
		}
		if s.stop == nil && s.started == nil {
			break
		}
		if s.started != nil && s.sub != "auto-restart" {
			return s.started, func() {}, nil
		}
		if s.active == active || s.active == activating && s.sub != "auto-restart" {
			return nothing, func() {}, nil
		}
		// Between two restarts, or still stopping: begin anew.
		stop, ended := s.stop, s.ended
		m.mu.Unlock()
		stop()
		<-ended
		m.mu.Lock()
	}
	running, cancel := context.WithCancel(context.Background()) // a unit outlives who starts it
	result, ended := make(chan struct{}), make(chan struct{})
	s.stop, s.ended, s.started = cancel, ended, result
	s.active, s.sub, s.result, s.restarts = activating, "start-pre", "success", 0
	s.since = time.Now()
	s.entered = s.since
	m.wait.Add(1)
	return result, func() {
		go func() {
			defer m.wait.Done()
			defer func() {
				cancel()
				m.mu.Lock()
				s.stop = nil
				m.mu.Unlock()
				close(ended)
			}()
			m.run(running, u, s, result)
		}()
	}, nil
}

// run is a unit's life from a start to its end.
func (m *Manager) run(ctx context.Context, u *unit, s *state, started chan struct{}) {
	result := sync.OnceFunc(func() {
		m.mu.Lock()
		s.started = nil
		m.mu.Unlock()
		close(started)
	})
	defer result()
	m.pullIn(ctx, u)
	switch filepath.Ext(u.name) {
	case ".service":
		m.runService(ctx, u, result)
	case ".timer":
		m.runTimer(ctx, u, result)
	default:
		m.set(u.name, active, "active")
		result()
		<-ctx.Done()
		m.set(u.name, inactive, "dead")
	}
}

// await waits for the result of a start.
func (m *Manager) await(ctx context.Context, name string, started <-chan struct{}) error {
	select {
	case <-started:
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state(name)
	if s.result != "success" {
		return fmt.Errorf("job for %s failed: %s", name, s.result)
	}
	return nil
}

// pullIn starts what a unit needs, and waits for the starts under way that it is
// ordered after.
func (m *Manager) pullIn(ctx context.Context, u *unit) {
	var others sync.WaitGroup
	for _, name := range append(u.words("Unit.Requires"), u.words("Unit.Wants")...) {
		others.Go(func() {
			if err := m.start(ctx, name); err != nil && !errors.Is(err, errNoUnit) {
				m.log(u.name, "Dependency %s: %v", name, err)
			}
		})
	}
	others.Wait()
	for _, name := range u.words("Unit.After") {
		m.mu.Lock()
		started := m.state(name).started
		m.mu.Unlock()
		if started == nil {
			continue
		}
		select {
		case <-started:
		case <-ctx.Done():
		}
	}
}

// stop stops a unit and waits until it has.
func (m *Manager) stop(name string) {
	m.mu.Lock()
	s := m.state(name)
	stop, ended := s.stop, s.ended
	m.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	<-ended
}

// Shutdown stops everything; nothing starts any more.
func (m *Manager) Shutdown() {
	m.mu.Lock()
	m.closed = true
	var stops []context.CancelFunc
	for _, s := range m.states {
		if s.stop != nil {
			stops = append(stops, s.stop)
		}
	}
	m.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	m.wait.Wait()
}

func masked(u *unit) bool {
	target, err := filepath.EvalSymlinks(u.path)
	return err == nil && target == "/dev/null"
}
