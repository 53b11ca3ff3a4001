package runs

import "context"

// Sweep is one round of Run.
func (e *Engine) Sweep(ctx context.Context) { e.sweep(ctx) }
