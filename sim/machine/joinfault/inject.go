package joinfault

import (
	"strings"
	"time"
)

// trap is a fault that waits for its moment.
type trap struct {
	fault   Fault
	matched int
	done    bool
}

// arm prepares all faults.
func (w *World) arm() {
	for _, f := range w.schedule.Faults {
		if f.When != nil {
			w.traps = append(w.traps, &trap{fault: f})
			continue
		}
		w.later(f.At, func() { w.inject(f) })
	}
}

// later does something that belongs to a fault: nothing is over before.
func (w *World) later(d time.Duration, do func()) {
	w.pending++
	w.after(d, func() {
		w.pending--
		do()
	})
}

// place is the machine that now has the place of the nth that was launched.
func (w *World) place(n int) *machine {
	first := w.machines[n]
	found := first
	for _, m := range w.machines {
		if m.worker == first.worker && m.index == first.index {
			found = m
		}
	}
	return found
}

func (w *World) inject(f Fault) {
	switch f.Kind {
	case Kill:
		w.place(f.Node).killAll("a fault")
	case Reboot:
		w.reboot(w.place(f.Node))
	case Twice:
		m := w.place(f.Node)
		if m.on && !m.bootstrapped() {
			w.start(m, m.role()+".sh", func(int) {})
		}
	case Replace:
		w.replace(f)
	case Token:
		w.note("fault", "all join tokens expire")
		for _, c := range w.clusters {
			clear(c.tokens)
		}
	case Shared:
		w.note("fault", "the shared certificates expire")
		for _, c := range w.clusters {
			c.shared = 0
		}
	case Balancer:
		w.note("fault", "the load balancer answers nobody for %s", f.For.Round(time.Second))
		w.silent = max(w.silent, w.now+f.For)
	case Requests:
		w.note("fault", "%s", f)
		if _, err := w.faults.Add(f.Request); err != nil {
			w.violate("fault: %v", err)
		}
	}
}

// reached springs the traps for a moment of a machine. It says whether one must act
// before anything else happens.
func (w *World) reached(m *machine, label string) (now bool) {
	for _, t := range w.traps {
		when := t.fault.When
		if t.done || w.place(when.Node) != m || !strings.HasPrefix(label, when.Call) {
			continue
		}
		if t.matched++; t.matched < when.Nth {
			continue
		}
		t.done, now = true, now || when.After == 0
		w.later(when.After, func() { w.inject(t.fault) })
	}
	return now
}

// reboot takes a minute.
func (w *World) reboot(m *machine) {
	if !m.on {
		return
	}
	m.crash("a reboot")
	w.later(w.between(20*time.Second, 2*time.Minute), m.boot)
}

// replace terminates an instance and launches another for its place. A cluster
// that would lose its data by it is spared: the fault then comes later, or never.
func (w *World) replace(f Fault) {
	old := w.place(f.Node)
	if !w.expendable(old) {
		if w.now < horizon+20*time.Minute {
			w.later(2*time.Minute, func() { w.replace(f) })
		} else {
			w.note("fault", "%s is not replaced: etcd would lose its majority", old.name())
		}
		return
	}
	w.note("fault", "%s is terminated, and is gone after %s; another comes after %s", old.name(), f.Linger.Round(time.Second), f.Launch.Round(time.Second))
	old.doomed = true
	if !f.Unaware {
		old.state = "shutting-down"
	}
	w.later(f.Linger, func() { w.terminate(old) })
	w.later(f.Launch, func() {
		if err := w.launch(old.index, old.worker); err != nil {
			w.violate("launch: %v", err)
		}
	})
}

// terminate ends an instance, as soon as the cluster can bear it.
func (w *World) terminate(m *machine) {
	if m.state == "terminated" {
		return
	}
	if !w.expendable(m) {
		w.later(time.Minute, func() { w.terminate(m) })
		return
	}
	m.crash("it is terminated")
	m.state = "terminated"
}

// expendable says whether a majority of every cluster that others know remains
// without the machine.
func (w *World) expendable(m *machine) bool {
	if m.state != "running" && m.state != "shutting-down" {
		return false
	}
	for _, c := range w.clusters {
		voting, could := 0, 0
		for _, e := range c.members {
			if e.learner {
				continue
			}
			voting++
			if _, own := e.machine.member(); own == e && e.machine != m && e.machine.state == "running" {
				could++
			}
		}
		of, e := m.member()
		if of == c && e != nil && could <= voting/2 && (len(c.members) > 1 || w.published) {
			return false
		}
	}
	return true
}
