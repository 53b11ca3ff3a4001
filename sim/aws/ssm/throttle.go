package ssm

import (
	"sync"
	"time"
)

// AWS's default rates per account and region.
const (
	DefaultPutRate = 3
	DefaultGetRate = 40
)

// Unlimited as a rate switches throttling off.
const Unlimited = -1

// Limits are how many calls of a kind a region takes per second, in a burst of
// one second. 0 is AWS's default.
type Limits struct {
	Put int // PutParameter
	Get int // GetParameter, GetParameters and GetParametersByPath together
}

type throttle struct {
	mu      sync.Mutex
	rates   map[kind]float64
	buckets map[bucketKey]*bucket
}

type kind int

const (
	free kind = iota // not throttled
	puts
	gets
)

var kinds = map[string]kind{"PutParameter": puts, "GetParameter": gets, "GetParameters": gets, "GetParametersByPath": gets}

type bucketKey struct {
	region string
	kind   kind
}

// bucket holds the tokens that were left at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

// set changes the limits; all buckets are full again.
func (t *throttle) set(l Limits) {
	if l.Put == 0 {
		l.Put = DefaultPutRate
	}
	if l.Get == 0 {
		l.Get = DefaultGetRate
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rates = map[kind]float64{puts: float64(l.Put), gets: float64(l.Get)}
	t.buckets = map[bucketKey]*bucket{}
}

// take says whether one more call fits.
func (t *throttle) take(region, operation string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := bucketKey{region, kinds[operation]}
	rate := t.rates[key.kind]
	if key.kind == free || rate < 0 {
		return true
	}
	b := t.buckets[key]
	if b == nil {
		b = &bucket{tokens: rate, at: now}
		t.buckets[key] = b
	}
	b.tokens = min(rate, b.tokens+rate*max(0, now.Sub(b.at).Seconds()))
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// SetLimits changes how many calls are taken from now on.
func (s *Service) SetLimits(l Limits) { s.throttle.set(l) }
