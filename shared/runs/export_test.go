package runs

import "context"

// Sweep is one round of Run.
func (e *Engine) Sweep(ctx context.Context) { e.sweep(ctx) }

// Stop ends what Run's end would end.
func (e *Engine) Stop() { e.captures.close() }
