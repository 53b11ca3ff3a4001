package sessionmanager

import (
	"sync"
	"time"
)

// deadline ends a wait on a condition. Its methods need the condition's lock.
type deadline struct {
	at    time.Time
	timer *time.Timer
	fired bool
}

func (d *deadline) set(at time.Time, waiting *sync.Cond) {
	d.stop()
	d.at, d.fired = at, false
	if !at.IsZero() {
		var timer *time.Timer
		timer = time.AfterFunc(time.Until(at), func() {
			waiting.L.Lock()
			defer waiting.L.Unlock()
			// Of two deadlines in a row the first may be late to learn that it is void.
			if d.timer == timer {
				d.fired = true
				waiting.Broadcast()
			}
		})
		d.timer = timer
	}
	waiting.Broadcast()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// passed is also true before the timer knows, so that a deadline in the past
// counts at once.
func (d *deadline) passed() bool {
	return d.fired || !d.at.IsZero() && !time.Now().Before(d.at)
}
