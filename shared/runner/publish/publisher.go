// Package publish hands a run's progress and result to the service: in the
// outputs Secret, which the runner may only create and replace, never read; and,
// compact, in the container's termination message, which survives an
// out-of-memory kill.
//
// The Secret is created once and from then on replaced as a whole. It has no
// owner: the Job's removal must not take the kubeconfig with it.
package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
)

// Interval is how often progress is written at most.
const Interval = 2 * time.Second

// attemptTimeout bounds one request to the API server.
const attemptTimeout = 15 * time.Second

// Pauses between attempts.
const (
	minPause = 500 * time.Millisecond
	maxPause = 10 * time.Second
)

// Secrets is the little that a runner may do with Secrets: client-go's
// SecretInterface has these two methods.
type Secrets interface {
	Create(ctx context.Context, secret *corev1.Secret, opts metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret, opts metav1.UpdateOptions) (*corev1.Secret, error)
}

// Config is what a Publisher needs.
type Config struct {
	Secrets   Secrets
	Name      string
	Namespace string
	Labels    map[string]string
	// TerminationMessage is the path of the container's termination message.
	TerminationMessage string
	Redactor           *redact.Redactor
	Warn               func(format string, args ...any) // for trouble that is not the run's end
}

// Publisher publishes one run. Report may be called from anywhere at any time;
// all else by one goroutine.
type Publisher struct {
	cfg     Config
	created bool
	data    map[string][]byte
	wake    chan struct{} // holds one token while latest is unwritten

	mu     sync.Mutex
	latest runcontract.Progress
}

// New returns a Publisher; nothing is written yet.
func New(cfg Config) *Publisher {
	return &Publisher{cfg: cfg, data: map[string][]byte{}, wake: make(chan struct{}, 1)}
}

// Open creates the Secret, so that missing rights are known before anything is
// built whose kubeconfig could then not be handed over.
func (p *Publisher) Open(ctx context.Context, progress runcontract.Progress) error {
	if err := p.setProgress(progress); err != nil {
		return err
	}
	return p.write(ctx)
}

// Report notes the newest progress for Run to write. It never blocks.
func (p *Publisher) Report(progress runcontract.Progress) {
	p.mu.Lock()
	p.latest = progress
	p.mu.Unlock()
	p.nudge()
}

func (p *Publisher) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run writes what Report notes, at most once per Interval, until ctx ends. The
// API server being away is no reason to stop: newer progress will follow.
func (p *Publisher) Run(ctx context.Context) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		p.mu.Lock()
		progress := p.latest
		p.mu.Unlock()
		err := p.setProgress(progress)
		if err == nil {
			err = p.attempt(ctx)
		}
		switch {
		case err == nil:
			failing = false
		case ctx.Err() != nil:
			return
		default:
			if !failing { // once per outage
				p.cfg.Warn("progress cannot be published: %v", err)
			}
			failing = true
			p.nudge()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Finish writes the result and the files that the run made, and tries again
// until ctx ends. Run must have returned.
func (p *Publisher) Finish(ctx context.Context, progress runcontract.Progress, result runcontract.Result, files map[string][]byte) error {
	if err := p.setProgress(progress); err != nil {
		return err
	}
	data, err := json.Marshal(p.masked(result))
	if err != nil {
		return fmt.Errorf("write %s: %w", runcontract.KeyResult, err)
	}
	p.data[runcontract.KeyResult] = data
	maps.Copy(p.data, files)
	return p.write(ctx)
}

// Terminate writes the termination message. It is written early and again at
// each phase, so that something is known of a run that dies.
func (p *Publisher) Terminate(result runcontract.Result) error {
	// In place: the file is a mount and cannot be replaced by another one.
	if err := os.WriteFile(p.cfg.TerminationMessage, p.masked(result).Compact(), 0o600); err != nil {
		return fmt.Errorf("write the termination message: %w", err)
	}
	return nil
}

func (p *Publisher) setProgress(progress runcontract.Progress) error {
	progress.Current = p.cfg.Redactor.String(progress.Current)
	progress.Message = p.cfg.Redactor.String(progress.Message)
	progress.Nodes = slices.Clone(progress.Nodes) // the caller's stay as they are
	for i := range progress.Nodes {
		progress.Nodes[i].Message = p.cfg.Redactor.String(progress.Nodes[i].Message)
	}
	data, err := json.Marshal(progress)
	if err != nil {
		return fmt.Errorf("write %s: %w", runcontract.KeyProgress, err)
	}
	p.data[runcontract.KeyProgress] = data
	return nil
}

// masked is the result without secrets.
func (p *Publisher) masked(r runcontract.Result) runcontract.Result {
	mask := p.cfg.Redactor.String
	r.Message = mask(r.Message)
	if r.Diagnostic != nil {
		r.Diagnostic = &runcontract.Diagnostic{
			Summary: mask(r.Diagnostic.Summary),
			Detail:  mask(r.Diagnostic.Detail),
			Address: mask(r.Diagnostic.Address),
		}
	}
	if r.Lock != nil {
		r.Lock = &api.StateLock{ID: mask(r.Lock.ID), Who: mask(r.Lock.Who), Created: r.Lock.Created}
	}
	return r
}

// write writes the Secret and tries again until ctx ends, unless trying again is pointless.
func (p *Publisher) write(ctx context.Context) error {
	warned := false
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := p.attempt(ctx)
		if err == nil || hopeless(err) {
			return err
		}
		if !warned {
			p.cfg.Warn("%v (trying again)", err)
			warned = true
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// attempt creates or replaces the Secret. A creation whose answer was lost
// turns out as "already exists", a deleted Secret as "not found".
func (p *Publisher) attempt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	var err error
	if !p.created {
		_, err = p.cfg.Secrets.Create(ctx, p.secret(), metav1.CreateOptions{})
		if err == nil {
			p.created = true
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the Secret %s: %w", p.cfg.Name, err)
		}
		p.created = true
	}
	if _, err = p.cfg.Secrets.Update(ctx, p.secret(), metav1.UpdateOptions{}); err == nil {
		return nil
	}
	if apierrors.IsNotFound(err) {
		p.created = false
		if _, err = p.cfg.Secrets.Create(ctx, p.secret(), metav1.CreateOptions{}); err == nil {
			p.created = true
			return nil
		}
	}
	return fmt.Errorf("replace the Secret %s: %w", p.cfg.Name, err)
}

// secret is the whole object. It has no resource version: nobody else writes it.
func (p *Publisher) secret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      p.cfg.Name,
			Namespace: p.cfg.Namespace,
			Labels:    p.cfg.Labels,
		},
		Type: corev1.SecretTypeOpaque,
		Data: maps.Clone(p.data),
	}
}

// hopeless errors are answers that will not change: missing rights, an object
// that the API server does not take.
func hopeless(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsMethodNotSupported(err)
}
