package run

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/tfrunner/internal/statebucket"
)

// bucket is the state bucket: a state, its lock, and what could not be saved.
type bucket struct {
	mu      sync.Mutex
	lock    *statebucket.Lock
	state   []byte
	rescued map[string][]byte
	aside   map[string][]byte
	broken  error // what every write gives
	// taken is done when a lock is about to be removed.
	taken func()
}

func newBucket() *bucket {
	return &bucket{rescued: map[string][]byte{}, aside: map[string][]byte{}}
}

func (b *bucket) locked(id, who string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lock = &statebucket.Lock{StateLock: api.StateLock{ID: id, Who: who}}
}

// Lock implements Locks.
func (b *bucket) Lock(ctx context.Context) (*statebucket.Lock, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lock, ctx.Err()
}

// Unlock implements Locks.
func (b *bucket) Unlock(ctx context.Context, l statebucket.Lock) (bool, error) {
	if b.taken != nil {
		b.taken()
		b.taken = nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return false, b.broken
	}
	if b.lock != nil && b.lock.ID != l.ID {
		return false, nil
	}
	b.lock = nil
	return true, ctx.Err()
}

// Version implements Rescued.
func (b *bucket) Version(ctx context.Context) (statebucket.Version, bool, error) {
	if b.state == nil {
		return statebucket.Version{}, false, ctx.Err()
	}
	v, err := statebucket.ReadVersion(b.state)
	return v, true, err
}

// Rescued implements Rescued.
func (b *bucket) Rescued(ctx context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(b.rescued)), ctx.Err()
}

// Rescue implements Rescued.
func (b *bucket) Rescue(ctx context.Context, id string, state []byte) error {
	if b.broken != nil {
		return b.broken
	}
	b.rescued[id] = state
	return ctx.Err()
}

// ReadRescued implements Rescued.
func (b *bucket) ReadRescued(ctx context.Context, id string) ([]byte, error) {
	return b.rescued[id], ctx.Err()
}

// DropRescued implements Rescued.
func (b *bucket) DropRescued(ctx context.Context, id string) error {
	if b.broken != nil {
		return b.broken
	}
	delete(b.rescued, id)
	return ctx.Err()
}

// SetAside implements Rescued.
func (b *bucket) SetAside(ctx context.Context, id string, state []byte) error {
	b.aside[id] = state
	return b.DropRescued(ctx, id)
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds to the log.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is the log so far.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
