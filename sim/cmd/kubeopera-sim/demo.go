package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/sim"
)

func demoCommand(env environment) *cobra.Command {
	var name string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Provision an EKS cluster through the API and show the result",
		Long: `demo provisions an EKS cluster through cluster-provisioner's API, shows its
progress, and lists the cluster's namespaces with the kubeconfig that came back.

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
				fmt.Fprintln(env.stdout, "\nThe simulator is still up: the kubeconfig works until you stop it.")
			} else {
				fmt.Fprintln(env.stdout, "\nThe simulator stops now, and the cluster with it. To keep one: `make up` in one terminal, `make demo` in another.")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the cluster; default: demo with the time")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show the simulator's own log")
	return cmd
}

func demo(ctx context.Context, env environment, here running, name string) error {
	if name == "" {
		name = "demo-" + time.Now().UTC().Format("150405")
	}
	provisioner, err := client.NewProvisioner(client.Config{BaseURL: here.URL, APIKey: here.Key})
	if err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "\nPOST %s/api/v1/provisions: an EKS cluster %q in eu-west-1\n", here.URL, name)
	started := time.Now()
	run, err := provisioner.StartProvision(ctx, api.ProvisionRequest{
		Name:              name,
		Topology:          api.TopologyEKS,
		Region:            "eu-west-1",
		CredentialID:      here.Credential,
		KubernetesVersion: "1.35",
		WorkerCount:       new(2),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "202 Accepted: run %s\n\n", run.ID)
	run, err = provisioner.Wait(ctx, run.ID, progressPrinter(env.stdout, started))
	if err != nil {
		return err
	}
	if run.Status != api.StatusSucceeded {
		return fmt.Errorf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
	}
	kubeconfig, err := provisioner.Kubeconfig(ctx, run.ID)
	if err != nil {
		return err
	}
	file := filepath.Join(here.Dir, name+".kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "\nThe kubeconfig, from GET %s/api/v1/provisions/%s/kubeconfig, is in %s\n", here.URL, run.ID, file)
	return getNamespaces(ctx, env, here, file)
}

// progressPrinter prints a line whenever something has changed that a person
// would want to see.
func progressPrinter(w io.Writer, started time.Time) func(api.Provision) {
	last := ""
	return func(run api.Provision) {
		line := string(run.Status)
		if run.Phase != "" {
			line += "  " + string(run.Phase)
		}
		if p := run.Progress; p != nil && p.Total > 0 {
			line += fmt.Sprintf("  %d of %d resources", p.Done, p.Total)
			if p.Current != "" {
				line += "  " + p.Current
			}
		} else if run.Message != "" {
			line += "  " + run.Message
		}
		if line == last {
			return
		}
		last = line
		fmt.Fprintf(w, "%6.1fs  %s\n", time.Since(started).Seconds(), line)
	}
}

// getNamespaces uses the kubeconfig as a person would, and says what that takes
// on this machine.
func getNamespaces(ctx context.Context, env environment, here running, kubeconfig string) error {
	path := env.getenv("PATH")
	if _, err := exec.LookPath("aws"); err != nil {
		bin := filepath.Dir(here.AWSCLI)
		path = bin + string(filepath.ListSeparator) + path
		fmt.Fprintf(env.stdout, "\nThe kubeconfig runs the AWS CLI, which is not on your PATH; the simulator has installed one:\n$ export PATH=%s:$PATH\n", bin)
	}
	fmt.Fprintf(env.stdout, "\n$ kubectl --kubeconfig %s get namespaces\n", kubeconfig)
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		fmt.Fprintln(env.stdout, "(kubectl is not on PATH: install it to use the kubeconfig)")
		return nil //nolint:nilerr // the demo has shown all that this machine can
	}
	cmd := exec.CommandContext(ctx, kubectl, "--kubeconfig", kubeconfig, "get", "namespaces")
	cmd.Env = append(os.Environ(), "PATH="+path)
	cmd.Stdout, cmd.Stderr = env.stdout, env.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl with the new kubeconfig: %w", err)
	}
	return nil
}
