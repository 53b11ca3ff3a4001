// Package provisioncmd is `kubeopera provision`: everything about runs of
// cluster-provisioner. A file holds a command; those that all runs have are
// runcmd's.
package provisioncmd

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/provisioner/internal/cli/session"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// commands is what the commands share.
type commands struct {
	*runcmd.Kind[api.Provision, service]
	session *session.Session
}

// New makes the command with its subcommands.
func New(s *session.Session) *cobra.Command {
	c := newCommands(s)
	root := &cobra.Command{
		Use:     "provision",
		Aliases: []string{"provisions"},
		Short:   "Provision Kubernetes clusters: start, watch and end runs",
		Long: `Provision Kubernetes clusters.

A run does one thing to one environment: it applies, plans, destroys or unlocks.
Runs never change what they do: retry, destroy and unlock start new ones.`,
	}
	root.AddCommand(
		c.create(), c.plan(), c.Get(), c.List(), c.Logs(), c.Events(), c.kubeconfig(),
		c.Cancel(`Ask a run to stop. Terraform is interrupted once and saves its state; that takes as
long as the resource that it is working on. What has been built stays: retry or
destroy the run afterwards.`, `--force kills what has not ended in its grace period. The service refuses it before
a graceful cancel has had its time, since resources may be lost track of.`),
		c.retry(), c.destroy(), c.unlock(),
	)
	return root
}

func newCommands(s *session.Session) *commands {
	return &commands{session: s, Kind: &runcmd.Kind[api.Provision, service]{
		Command: "provision", Terminal: &s.Terminal,
		Connect: func(key string) (service, error) {
			p, err := s.Provisioner()
			if err == nil && key != "" {
				p = p.WithIdempotencyKey(key)
			}
			return service{p}, err
		},
		View:       view,
		Page:       func(runs []api.Provision) any { return api.ProvisionList{Provisions: runs} },
		Columns:    []string{"topology", "region"},
		Operations: []api.Operation{api.OperationApply, api.OperationPlan, api.OperationDestroy, api.OperationUnlock},
	}}
}

// service is cluster-provisioner as runcmd knows services.
type service struct{ *client.Provisioner }

func (s service) Get(ctx context.Context, id string) (api.Provision, error) {
	return s.Provision(ctx, id)
}

func (s service) All(ctx context.Context, o client.ListOptions) iter.Seq2[api.Provision, error] {
	return s.AllProvisions(ctx, o)
}

func (s service) Events(ctx context.Context, id string) ([]api.Event, error) {
	return s.ProvisionEvents(ctx, id)
}

func (s service) Cancel(ctx context.Context, id string, force bool) (api.Provision, error) {
	return s.CancelProvision(ctx, id, force)
}

func view(run api.Provision) runcmd.View {
	v := runcmd.View{
		Run: progress.Run{
			ID: run.ID, Title: string(run.Operation) + " " + run.TerraformEnvironment, About: []string{string(run.Topology), run.Region},
			RunStatus: run.RunStatus, Unit: "resources", Nodes: run.Nodes,
		},
		Environment: run.TerraformEnvironment, Operation: run.Operation, RetryOf: run.RetryOf, RequestedBy: run.RequestedBy,
		Inputs: [][]string{
			{"Name", run.Name},
			{"Environment", run.TerraformEnvironment},
			{"Topology", string(run.Topology)},
			{"Region", run.Region},
			{"Kubernetes", run.KubernetesVersion},
		},
		Columns: []string{string(run.Topology), run.Region},
	}
	if c := run.Changes; c != nil {
		v.Outputs = append(v.Outputs, []string{"Changes", fmt.Sprintf("%d to add, %d to change, %d to destroy", c.Add, c.Change, c.Remove)})
	}
	if l := run.Lock; l != nil {
		v.Outputs = append(v.Outputs, []string{"Lock", l.ID}, []string{"Locked by", l.Who}, []string{"Locked at", runcmd.Stamp(l.Created)})
	}
	return v
}
