package systemd

import (
	"context"
	"path/filepath"
	"strings"
	"time"
)

// runTimer starts the timer's unit whenever it is time, until it is stopped.
func (m *Manager) runTimer(ctx context.Context, u *unit, started func()) {
	t := &timer{
		unit: u, target: u.get("Timer.Unit", strings.TrimSuffix(u.name, filepath.Ext(u.name))+".service"),
		booted: m.booted, activated: time.Now(), delay: randomUpTo(u.span("Timer.RandomizedDelaySec", 0)),
	}
	m.set(u.name, active, "waiting")
	m.log(u.name, "Started %s.", u.name)
	started()
	defer m.set(u.name, inactive, "dead")
	for {
		m.mu.Lock()
		target := m.state(t.target)
		next, ok := t.next(target.entered, target.exited)
		m.state(u.name).next = next
		m.mu.Unlock()
		// Look again now and then: somebody may have started the unit by hand.
		pause := time.Second
		if ok {
			pause = min(pause, time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !ok || time.Now().Before(next) {
			continue
		}
		t.triggered, t.delay = time.Now(), randomUpTo(u.span("Timer.RandomizedDelaySec", 0))
		m.set(u.name, active, "running")
		if err := m.start(ctx, t.target); err != nil && ctx.Err() == nil {
			m.log(u.name, "%s: %v", u.name, err)
		}
		m.set(u.name, active, "waiting")
	}
}

// timer is a running timer.
type timer struct {
	unit      *unit
	target    string
	booted    time.Time
	activated time.Time
	triggered time.Time // last; zero: never
	delay     time.Duration
}

// next is the earliest time that the settings give, with the unit last activated
// and deactivated at the given times (zero: never). What counts from the boot or
// the timer's own start elapses once, at once if it is past by then.
func (t *timer) next(activated, deactivated time.Time) (time.Time, bool) {
	var next time.Time
	consider := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	each := func(key string, base time.Time, once bool) {
		for _, text := range t.unit.all("Timer." + key) {
			d, err := duration(text)
			if err != nil || base.IsZero() {
				continue
			}
			if at := base.Add(d); !once || t.triggered.IsZero() || at.After(t.triggered) {
				consider(at)
			}
		}
	}
	each("OnBootSec", t.booted, true)
	each("OnStartupSec", t.booted, true)
	each("OnActiveSec", t.activated, true)
	each("OnUnitActiveSec", latest(activated, t.triggered), false)
	each("OnUnitInactiveSec", latest(deactivated, t.triggered), false)
	for _, text := range t.unit.all("Timer.OnCalendar") {
		if at, ok := calendar(text, latest(t.activated, t.triggered)); ok {
			consider(at)
		}
	}
	return next.Add(t.delay), !next.IsZero()
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// calendar gives the first full hour, day, … after a time.
func calendar(text string, after time.Time) (time.Time, bool) {
	after = after.UTC()
	day := time.Date(after.Year(), after.Month(), after.Day(), 0, 0, 0, 0, time.UTC)
	switch strings.TrimSpace(text) {
	case "minutely":
		return after.Truncate(time.Minute).Add(time.Minute), true
	case "hourly":
		return after.Truncate(time.Hour).Add(time.Hour), true
	case "daily":
		return day.AddDate(0, 0, 1), true
	case "weekly":
		return day.AddDate(0, 0, 7-(int(day.Weekday())+6)%7), true
	case "monthly":
		return time.Date(after.Year(), after.Month()+1, 1, 0, 0, 0, 0, time.UTC), true
	case "yearly", "annually":
		return time.Date(after.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC), true
	}
	return time.Time{}, false
}
