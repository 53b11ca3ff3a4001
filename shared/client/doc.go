// Package client has typed HTTP clients for the platform's services.
//
// Every error of a service is or wraps an *api.Problem, also when a proxy
// answered something else: branch on its Status and Code. Other errors mean that
// no answer came. Reads are tried again a few times when the service cannot be
// reached or asks for patience, starts of runs only when it says that nothing
// was begun (429 and 503 with Retry-After). Calls end with their context.
//
//	c, err := client.NewProvisioner(client.Config{BaseURL: url, APIKey: key})
//	run, err := c.StartProvision(ctx, api.ProvisionRequest{…})
//	run, err = c.Wait(ctx, run.ID, func(p api.Provision) { … })
//	kubeconfig, err := c.Kubeconfig(ctx, run.ID)
package client
