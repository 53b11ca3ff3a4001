// Package scaffoldcmd is `kubeopera scaffold`: everything about runs of
// gitops-scaffolder. A file holds a command; those that all runs have are runcmd's.
package scaffoldcmd

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/provisioner/internal/cli/session"
	"github.com/kubeopera/platform/provisioner/internal/cli/settings"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// commands is what the commands share.
type commands struct {
	*runcmd.Kind[api.Scaffold, service]
	session *session.Session
}

// New makes the command with its subcommands.
func New(s *session.Session) *cobra.Command {
	c := newCommands(s)
	root := &cobra.Command{
		Use:     "scaffold",
		Aliases: []string{"scaffolds"},
		Short:   "Make GitOps trees for clusters: start, watch and end runs",
		Long: `Make GitOps trees for clusters.

A run generates the tree of an environment, seals its secrets for the cluster and
pushes it to the branch that Flux follows there, in two passes. A dry run pushes
nothing and has a diff. Runs never change what they do: retry starts a new one.`,
	}
	settings.Scaffolder.AddFlags(root.PersistentFlags(), &s.Options)
	root.AddCommand(
		c.create(), c.Get(), c.List(), c.Logs(), c.Events(), c.diff(),
		c.Cancel(`Ask a run to stop. What has been pushed stays, and a retry goes on from there.`, `--force kills what has not ended in its grace period. The service refuses it before
a graceful cancel has had its time.`),
		c.retry(),
	)
	return root
}

func newCommands(s *session.Session) *commands {
	return &commands{session: s, Kind: &runcmd.Kind[api.Scaffold, service]{
		Command: "scaffold", Terminal: &s.Terminal,
		Connect: func(key string) (service, error) {
			p, err := s.Scaffolder()
			if err == nil && key != "" {
				p = p.WithIdempotencyKey(key)
			}
			return service{p}, err
		},
		View:       view,
		Page:       func(runs []api.Scaffold) any { return api.ScaffoldList{Scaffolds: runs} },
		Columns:    []string{"domain", "branch"},
		Operations: []api.Operation{api.OperationScaffold, api.OperationDryRun},
	}}
}

// service is gitops-scaffolder as runcmd knows services.
type service struct{ *client.Scaffolder }

func (s service) Get(ctx context.Context, id string) (api.Scaffold, error) {
	return s.Scaffold(ctx, id)
}

func (s service) All(ctx context.Context, o client.ListOptions) iter.Seq2[api.Scaffold, error] {
	return s.AllScaffolds(ctx, o)
}

func (s service) Events(ctx context.Context, id string) ([]api.Event, error) {
	return s.ScaffoldEvents(ctx, id)
}

func (s service) Cancel(ctx context.Context, id string, force bool) (api.Scaffold, error) {
	return s.CancelScaffold(ctx, id, force)
}

func view(run api.Scaffold) runcmd.View {
	operation := api.OperationScaffold
	if run.DryRun {
		operation = api.OperationDryRun
	}
	yes := func(b bool) string {
		if b {
			return strconv.FormatBool(b)
		}
		return ""
	}
	return runcmd.View{
		Run: progress.Run{
			ID: run.ID, Title: strings.ReplaceAll(string(operation), "_", " ") + " " + run.Environment, About: []string{run.Domain, run.Region},
			RunStatus: run.RunStatus, Unit: "steps", Made: made(run.ScaffoldOutput),
		},
		Environment: run.Environment, Operation: operation, RetryOf: run.RetryOf, RequestedBy: run.RequestedBy,
		Inputs: [][]string{
			{"Environment", run.Environment},
			{"Domain", run.Domain},
			{"Region", run.Region},
			{"Email", run.Email},
			{"Repository", run.RepositoryURL},
			{"Branch", run.Branch},
			{"Mode", string(run.Mode)},
			{"Provision", run.ProvisionID},
			{"Cluster", run.Server},
			{"Credential", run.CredentialID},
			{"Registry", strings.TrimPrefix(run.RegistryUsername+" at "+run.RegistryServer, " at ")},
			{"Services", strings.Join(slices.Sorted(maps.Keys(run.Services)), ", ")},
			{"Rotate secrets", yes(run.RotateSecrets)},
			{"Allow deletion", yes(run.AllowDeletion)},
		},
		Columns: []string{run.Domain, run.Branch},
	}
}

// made is what a run has made, as far as it has come.
func made(o api.ScaffoldOutput) []progress.Fact {
	var facts []progress.Fact
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, progress.Fact{Name: name, Value: value})
		}
	}
	if c := o.Commits; c != nil {
		add("Infrastructure commit", c.Infrastructure)
	}
	add("Certificate", o.CertificateFingerprint)
	if c := o.Commits; c != nil {
		add("Complete commit", c.Complete)
	}
	add("Pushed branch", o.PushedBranch)
	add("Path", o.GitOpsPath)
	return facts
}
