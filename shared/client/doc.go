// Package client has typed HTTP clients for the platform's services.
//
// Every error of a service is or wraps an *api.Problem, also when a proxy
// answered something else: branch on Code and Status, or on IsNotFound,
// IsConflict and IsUnauthorized. Other errors mean that no answer came.
//
// Calls are tried again a few times when the service cannot be reached or asks for
// patience (Retry-After), with growing random pauses. That is safe for all of them:
// reads and cancels may be repeated, and what begins a run carries an idempotency
// key, so that a lost answer never means a second run. Calls end with their context.
//
//	c, err := client.NewProvisioner(client.Config{BaseURL: url, APIKey: key})
//	run, err := c.StartProvision(ctx, api.ProvisionRequest{…})
//	run, err = c.Wait(ctx, run.ID, func(p api.Provision) { … })
//	kubeconfig, err := c.Kubeconfig(ctx, run.ID)
//
// Scaffolder is the same for gitops-scaffolder.
package client
