package envcmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/provisioner"
)

func (c *commands) health() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health -f FILE [--machines FILE]",
		Short: "Ask how a cluster is",
		Long: `Ask the cluster's API server, on the first control plane that answers, how it and the
nodes are. Nothing is changed. The exit code is 3 if the cluster is not healthy:
the API server does not answer, or a node is missing or not ready.`,
		Example: `  kubeopera env health -f environment.yaml --machines machines.yaml`,
		Args:    runcmd.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := c.addOptions(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		t, err := c.target(cmd.Context(), o)
		if err != nil {
			return err
		}
		defer t.close()
		ctx, cancel := runcmd.TimeLimit(cmd.Context(), o.timeout)
		defer cancel()
		h, err := c.ask(ctx, o, t)
		if ctx.Err() != nil {
			return o.ending(ctx, err)
		}
		if err := output.Print(c.session.Terminal.Out, *o.format, healthResult(h)); err != nil {
			return err
		}
		if err != nil || !h.Healthy {
			return &exit.Error{Code: exit.RunFailed, Err: fmt.Errorf("the cluster is not healthy: %s", h.Message)}
		}
		_, err = fmt.Fprintln(c.session.Terminal.Err, "healthy: "+terminal.CleanLines(h.Message))
		return err
	}
	return cmd
}

// ask asks the control planes one after the other until one answers.
func (c *commands) ask(ctx context.Context, o *options, t *target) (*provisioner.ClusterHealth, error) {
	cp := c.library.Cluster(t, c.log(o, func(string) {}), nil)
	var h *provisioner.ClusterHealth
	var err error
	for _, n := range t.nodes {
		if n.Role == string(api.RoleWorker) {
			continue
		}
		if h, err = cp.GetClusterHealthContext(ctx, n); err == nil || ctx.Err() != nil {
			break
		}
	}
	if h == nil {
		h = &provisioner.ClusterHealth{APIServerStatus: provisioner.APIServerUnreachable, Message: "no control plane was asked"}
	}
	return h, err
}

// health is how a cluster is, for programs.
type health struct {
	Healthy       bool         `json:"healthy"`
	APIServer     string       `json:"api_server"`
	Message       string       `json:"message"`
	TotalNodes    int          `json:"total_nodes"`
	ReadyNodes    int          `json:"ready_nodes"`
	ControlPlanes int          `json:"control_planes"`
	Workers       int          `json:"workers"`
	Nodes         []nodeHealth `json:"nodes"`
}

type nodeHealth struct {
	Name       string `json:"name"`
	Role       string `json:"role"`
	Ready      bool   `json:"ready"`
	Status     string `json:"status"`
	Version    string `json:"version,omitempty"`
	InternalIP string `json:"internal_ip,omitempty"`
}

func healthResult(h *provisioner.ClusterHealth) output.Result {
	value := health{
		Healthy: h.Healthy, APIServer: h.APIServerStatus, Message: h.Message, TotalNodes: h.TotalNodes, ReadyNodes: h.ReadyNodes,
		ControlPlanes: h.ControlPlanes, Workers: h.Workers, Nodes: []nodeHealth{},
	}
	r := output.Result{Rows: [][]string{{"node", "role", "status", "version", "address"}}}
	for _, n := range h.Nodes {
		value.Nodes = append(value.Nodes, nodeHealth{n.Name, n.Role, n.Ready, n.Status, n.Version, n.InternalIP})
		r.Names = append(r.Names, n.Name)
		r.Rows = append(r.Rows, []string{n.Name, n.Role, n.Status, n.Version, n.InternalIP})
	}
	if len(h.Nodes) == 0 {
		r.Rows = [][]string{{"api server", "nodes"}, {h.APIServerStatus, strconv.Itoa(h.TotalNodes)}}
	}
	r.Value = value
	return r
}
