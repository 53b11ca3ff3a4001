package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/sim"
)

// running is what another command needs to know of a simulator that is up.
type running struct {
	URL        string `json:"url"` // of cluster-provisioner
	Key        string `json:"key"`
	Scaffolder struct {
		URL string `json:"url"`
		Key string `json:"key"`
	} `json:"scaffolder"`
	Credential string `json:"credential"`
	Trees      string `json:"trees"`  // the platform's own GitOps repository on disk
	Target     string `json:"target"` // kubeconfig file of every EKS cluster, with all rights
	// Machines are machines that exist, for a cluster on them, and SSHCredential the
	// id of the key that they let in.
	Machines      []api.Machine `json:"machines"`
	SSHCredential string        `json:"ssh_credential"`
	Dir           string        `json:"dir"`
	AWSCLI        string        `json:"aws_cli"`
}

// Files of the simulator's folder.
const (
	// descriptor has its running.
	descriptor = "simulator.json"
	// machinesFile has the machines as kubeopera's --machines takes them, keyFile
	// the private key for them.
	machinesFile = "machines.yaml"
	keyFile      = "machines.key"
)

func upCommand(env environment) *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the simulator, print addresses and a key, run until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			s, here, err := start(ctx, env, verbose)
			if err != nil {
				return err
			}
			printUp(env.stdout, s, here)
			<-ctx.Done()
			fmt.Fprintln(env.stdout, "stopping ...")
			return s.Stop(context.WithoutCancel(ctx))
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show the simulator's own log")
	return cmd
}

// start starts a simulator in the checkout's .sim folder.
func start(ctx context.Context, env environment, verbose bool) (*sim.Simulator, running, error) {
	root, err := sim.FindRoot(".")
	if err != nil {
		return nil, running{}, err
	}
	dir := filepath.Join(root, ".sim")
	if other, ok := find(ctx, dir); ok {
		return nil, running{}, fmt.Errorf("a simulator of this checkout is up already, at %s: stop it first (Ctrl-C in its terminal)", other.URL)
	}
	cache, err := sim.CacheDir(env.getenv)
	if err != nil {
		return nil, running{}, err
	}
	assets, err := sim.ControlPlaneAssets(ctx, root, env.stderr)
	if err != nil {
		return nil, running{}, err
	}
	fmt.Fprintln(env.stdout, "starting the simulator (logs in .sim) ...")
	s, err := sim.Start(ctx, sim.Config{
		Root: root, Bin: filepath.Join(root, "bin"), Dir: dir, Assets: assets, Cache: cache,
		Getenv: env.getenv,
		Log:    newLog(env.stderr, verbose),
	})
	if err != nil {
		return nil, running{}, err
	}
	here := running{
		URL: s.ClusterProvisioner.URL(), Key: s.ClusterProvisioner.Key(), Credential: s.Credential,
		Trees: s.Trees.Dir(), Target: s.TargetKubeconfig(), Dir: dir, AWSCLI: s.AWS.CLI(),
	}
	here.Scaffolder.URL, here.Scaffolder.Key = s.GitOpsScaffolder.URL(), s.GitOpsScaffolder.Key()
	if err := launchMachines(ctx, s, &here); err != nil { // not everybody can have sshd
		fmt.Fprintf(env.stderr, "warning: there are no existing machines: %v\n", err)
	}
	data, err := json.Marshal(here)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, descriptor), data, 0o600)
	}
	if err != nil {
		return nil, running{}, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, here, nil
}

// launchMachines adds machines that exist: a control plane and two workers, as a
// request names them.
func launchMachines(ctx context.Context, s *sim.Simulator, here *running) error {
	fleet, err := s.LaunchFleet(ctx, "machine", 3)
	if err != nil {
		return err
	}
	var machines []api.Machine
	for i, role := range []api.Role{api.RoleControlPlane, api.RoleWorker, api.RoleWorker} {
		machines = append(machines, fleet.Direct(i, role))
	}
	list, err := yaml.Marshal(machines)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(here.Dir, machinesFile), list, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(here.Dir, keyFile), []byte(fleet.Key.Reveal()), 0o600); err != nil {
		return err
	}
	here.Machines, here.SSHCredential = machines, fleet.Credential
	return nil
}

// find gives the simulator that is up in dir, if there is one.
func find(ctx context.Context, dir string) (running, bool) {
	data, err := os.ReadFile(filepath.Join(dir, descriptor))
	if err != nil {
		return running{}, false
	}
	var r running
	if json.Unmarshal(data, &r) != nil {
		return running{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/api/v1/provisions?limit=1", nil)
	if err != nil {
		return running{}, false
	}
	request.Header.Set("X-Api-Key", r.Key) // its own key: another program's port would refuse it
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return running{}, false
	}
	defer response.Body.Close()
	return r, response.StatusCode == http.StatusOK
}

func printUp(w io.Writer, s *sim.Simulator, here running) {
	fmt.Fprintf(w, `
The simulator is up.

  cluster-provisioner  %[1]s/docs
  gitops-scaffolder    %[8]s/docs
  runs                 kubectl --kubeconfig %[5]s get jobs,pods -n %[6]s
  simulated AWS        %[4]s
  GitOps repository    git --git-dir %[10]s log
  EKS clusters         kubectl --kubeconfig %[11]s get namespaces
  machines             %[12]s, three with nothing on them but an SSH server
  state and logs       %[7]s

In another terminal, make demo provisions clusters in it, and scaffolds one. Or go by
hand through docs/user-guide.md, which expects the address, an API key, the ids of an
AWS credential and of an SSH key, and the machines that let that in:

  export URL=%[1]s KEY=%[2]s CREDENTIAL=%[3]s SSH_CREDENTIAL=%[13]s MACHINES=%[12]s

  printf 'X-Api-Key: %%s\n' "$KEY" | curl -sS "$URL/api/v1/provisions" -H @- -H 'Content-Type: application/json' \
    -d '{"name": "acme", "topology": "eks", "region": "eu-west-1", "kubernetes_version": "1.35", "credential_id": "'"$CREDENTIAL"'"}'

When that run has succeeded, its id (PROVISION) is enough for its tree, which goes to
the GitOps repository; Flux follows it there:

  export SCAFFOLDER_URL=%[8]s SCAFFOLDER_KEY=%[9]s

  printf 'X-Api-Key: %%s\n' "$SCAFFOLDER_KEY" | curl -sS "$SCAFFOLDER_URL/api/v1/scaffolds" -H @- -H 'Content-Type: application/json' \
    -d '{"environment": "acme", "domain": "acme.example.com", "region": "eu-west-1", "email": "ops@acme.example.com", "target": {"provision_id": "'"$PROVISION"'"},
         "registry": {"server": "registry.example.com", "username": "robot", "password": "example-password"}}'

Ctrl-C stops it.
`, here.URL, here.Key, here.Credential, s.AWS.URL(), s.HostKubeconfig(), sim.RunNamespace, here.Dir,
		here.Scaffolder.URL, here.Scaffolder.Key, here.Trees, here.Target, filepath.Join(here.Dir, machinesFile), here.SSHCredential)
}
