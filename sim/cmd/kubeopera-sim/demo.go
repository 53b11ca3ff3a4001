package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/sim"
)

func demoCommand(env environment) *cobra.Command {
	var name string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Provision a cluster of each topology, scaffold one, and show the results",
		Long: `demo provisions an EKS cluster, a kubeadm cluster with three control planes, and a
cluster on three machines that exist, through cluster-provisioner's API and side by
side, shows their progress, and uses the kubeconfigs that come back. Then it has gitops-scaffolder make the tree of the
EKS cluster, and shows what Flux makes of it.

It uses the simulator that ` + "`up`" + ` started in this checkout, and leaves it running;
without one it starts its own and stops it at the end.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx := cmd.Context()
			root, err := sim.FindRoot(".")
			if err != nil {
				return err
			}
			here, up := find(ctx, filepath.Join(root, ".sim"))
			if !up {
				s, own, err := start(ctx, env, verbose)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()
				here = own
			}
			if err := demo(ctx, env, here, name); err != nil {
				return err
			}
			if up {
				fmt.Fprintln(env.stdout, "\nThe simulator is still up: the kubeconfigs work until you stop it.")
			} else {
				fmt.Fprintln(env.stdout, "\nThe simulator stops now, and the clusters with it. To keep them: `make up` in one terminal, `make demo` in another.")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "what the clusters' names start with; default: demo with the time")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show the simulator's own log")
	return cmd
}

// cluster is one that the demo provisions, and what it shows of it at the end.
type cluster struct {
	what    string
	request api.ProvisionRequest
	show    []string // arguments of kubectl
	needs   string   // program that the kubeconfig runs
}

// clusters are one of each topology. Prefix starts their names, but for that of the
// existing machines: they can be one cluster only.
func clusters(prefix string, here running) []cluster {
	eks := api.ProvisionRequest{
		Name: prefix + "-eks", Topology: api.TopologyEKS, KubernetesVersion: "1.35", WorkerCount: new(2),
	}
	kubeadm := api.ProvisionRequest{
		Name: prefix + "-kubeadm", Topology: api.TopologyVanillaKubeadm, KubernetesVersion: "1.36.3",
		ControlPlaneCount: new(3), WorkerCount: new(1),
	}
	for _, r := range []*api.ProvisionRequest{&eks, &kubeadm} {
		r.Region, r.CredentialID = "eu-west-1", here.Credential
	}
	machines := api.ProvisionRequest{
		Name: "demo-machines", Topology: api.TopologyExistingMachines, KubernetesVersion: "1.36.3",
		SSHCredentialID: here.SSHCredential, Machines: here.Machines,
	}
	all := []cluster{
		{what: "EKS with two workers, in eu-west-1", request: eks, show: []string{"get", "namespaces"}, needs: "aws"},
		{what: "kubeadm with three control planes behind a load balancer, in eu-west-1", request: kubeadm, show: []string{"get", "nodes"}},
		{what: "kubeadm on three machines that exist, over SSH", request: machines, show: []string{"get", "nodes"}},
	}
	if len(here.Machines) == 0 {
		return all[:2]
	}
	return all
}

// demo provisions the clusters side by side and shows each when all have ended.
func demo(ctx context.Context, env environment, here running, prefix string) error {
	if prefix == "" {
		prefix = "demo-" + time.Now().UTC().Format("150405")
	}
	provisioner, err := client.NewProvisioner(client.Config{BaseURL: here.URL, APIKey: here.Key})
	if err != nil {
		return err
	}
	all := clusters(prefix, here)
	runs := make([]api.Provision, len(all))
	fmt.Fprintf(env.stdout, "\nPOST %s/api/v1/provisions\n", here.URL)
	for i, c := range all {
		if runs[i], err = provisioner.StartProvision(ctx, c.request); err != nil {
			return err
		}
		fmt.Fprintf(env.stdout, "202 Accepted: %s, %s, run %s\n", c.request.Name, c.what, runs[i].ID)
	}
	fmt.Fprintln(env.stdout)
	progress := newProgress(env.stdout)
	var group errgroup.Group
	for i, c := range all {
		group.Go(func() (err error) {
			runs[i], err = provisioner.Wait(ctx, runs[i].ID, progress.of(c.request.Name))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var errs []error
	for i, c := range all {
		errs = append(errs, show(ctx, env, here, provisioner, c, runs[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return scaffold(ctx, env, here, runs[0])
}

// show uses a cluster's kubeconfig, or says why there is none.
func show(ctx context.Context, env environment, here running, provisioner *client.Provisioner, c cluster, run api.Provision) error {
	if run.Status != api.StatusSucceeded {
		printLogTail(ctx, env.stdout, "provisions", run.ID, provisioner.Logs)
		return fmt.Errorf("the run of %s ended %s (%s): %s", c.request.Name, run.Status, run.ErrorCode, run.Message)
	}
	kubeconfig, err := provisioner.Kubeconfig(ctx, run.ID)
	if err != nil {
		return err
	}
	file := filepath.Join(here.Dir, c.request.Name+".kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "\n%s: the kubeconfig, from GET /api/v1/provisions/%s/kubeconfig, is in %s\n", c.request.Name, run.ID, file)
	return useKubectl(ctx, env, here, file, c.needs, c.show...)
}

// progress prints a line whenever something has changed that a person would want
// to see, for several runs at once.
type progress struct {
	mu      sync.Mutex
	w       io.Writer
	started time.Time
}

func newProgress(w io.Writer) *progress { return &progress{w: w, started: time.Now()} }

// of gives the callback for one provisioning run.
func (p *progress) of(name string) func(api.Provision) {
	show := p.status(name)
	return func(run api.Provision) { show(run.RunStatus) }
}

// status gives the callback for one run of any service.
func (p *progress) status(name string) func(api.RunStatus) {
	last := ""
	return func(run api.RunStatus) {
		line := fmt.Sprintf("%s  %-9s  ", name, run.Status)
		switch done := run.Progress; {
		case run.Phase == api.PhaseApply && done != nil && done.Total > 0:
			line += fmt.Sprintf("apply  %d of %d  %s", done.Done, done.Total, done.Current)
		default:
			line += cmp.Or(run.Message, string(run.Phase))
		}
		if line != last {
			p.print(line)
		}
		last = line
	}
}

func (p *progress) print(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, "%6.1fs  %s\n", time.Since(p.started).Seconds(), strings.TrimRight(line, " "))
}

// printLogTail shows the end of a failed run's log, which goes with the simulator.
func printLogTail(ctx context.Context, w io.Writer, runs, id string, logs func(context.Context, string, client.LogOptions) (io.ReadCloser, error)) {
	log, err := logs(ctx, id, client.LogOptions{Tail: 10})
	if err != nil {
		fmt.Fprintf(w, "\nno log: %v\n", err)
		return
	}
	defer log.Close()
	fmt.Fprintf(w, "\nThe end of the log, from GET /api/v1/%s/%s/logs?tail=10:\n\n", runs, id)
	if _, err := io.Copy(w, log); err != nil {
		fmt.Fprintf(w, "the log broke off: %v\n", err)
	}
	fmt.Fprintln(w)
}

// useKubectl uses a kubeconfig, which runs the program that it needs, as a person
// would, and says what that takes on this machine.
func useKubectl(ctx context.Context, env environment, here running, kubeconfig, needs string, args ...string) error {
	path := env.getenv("PATH")
	if _, err := exec.LookPath(needs); needs != "" && err != nil {
		bin := filepath.Dir(here.AWSCLI)
		path = bin + string(filepath.ListSeparator) + path
		fmt.Fprintf(env.stdout, "It runs the AWS CLI, which is not on your PATH; the simulator has installed one:\n$ export PATH=%s:$PATH\n", bin)
	}
	args = append([]string{"--kubeconfig", kubeconfig}, args...)
	fmt.Fprintf(env.stdout, "$ kubectl %s\n", strings.Join(args, " "))
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		fmt.Fprintln(env.stdout, "(kubectl is not on PATH: install it to use the kubeconfig)")
		return nil //nolint:nilerr // the demo has shown all that this machine can
	}
	cmd := exec.CommandContext(ctx, kubectl, args...)
	cmd.Env = append(os.Environ(), "PATH="+path)
	cmd.Stdout, cmd.Stderr = env.stdout, env.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl with the new kubeconfig: %w", err)
	}
	return nil
}
