package envcmd

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/request"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/shared/redact"
)

const passphraseVariable = "KUBEOPERA_SSH_PASSPHRASE" //nolint:gosec // where it is, not what

// targetFlags say what is wanted, on which machines, and how to log in to them.
type targetFlags struct {
	file, machines          string
	keyPath, passphraseFile string
	certificate, knownHosts string
}

func (f *targetFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "file with the environment as YAML or JSON, - for standard input")
	flags.StringVar(&f.machines, "machines", "", "file with a list of machines as YAML or JSON, for a cluster")
	flags.StringVar(&f.keyPath, "private-key", "", "file with the SSH private key (default: spec.auth.privateKey, else the SSH agent's)")
	flags.StringVar(&f.passphraseFile, "passphrase-file", "", "file with the private key's passphrase, - for standard input; or $"+passphraseVariable)
	flags.StringVar(&f.certificate, "certificate", "", "file with an OpenSSH certificate for the private key")
	flags.StringVar(&f.knownHosts, "known-hosts", "", "file that host keys are remembered in (default: one of the program's own)")
}

// target is what is wanted and where.
type target struct {
	env        *v1alpha1.Environment // with its defaults
	nodes      []provisioner.NodeInfo
	user       string // of machines that name none
	keyPath    string
	connection provisioner.Connection
	baseDir    string // of the environment's templates
	plan       provisioner.Plan
}

// read gives the target. The environment and the machines are checked as far as that
// is possible from here; what deserves a look is said.
func (f *targetFlags) read(ctx context.Context, in *request.Input, t terminal.Terminal) (*target, error) {
	if f.file == "" {
		return nil, exit.Usagef("which environment? use -f FILE")
	}
	data, err := in.Read("--file", f.file)
	if err != nil {
		return nil, err
	}
	env, err := v1alpha1.Decode(data)
	if err != nil {
		return nil, exit.Usagef("%s: %w", f.file, err)
	}
	out := &target{env: env, keyPath: cmp.Or(f.keyPath, env.Spec.PrivateKey), connection: provisioner.ConnectionFromEnvironment(env), baseDir: "."}
	if f.file != "-" {
		out.baseDir = filepath.Dir(f.file)
	}
	if err := f.readMachines(in, out); err != nil {
		return nil, err
	}
	// What Decode has read is checked and completed by the library; the user name
	// and the counts are needed here.
	complete := env.DeepCopy()
	complete.SetDefaults()
	if out.plan, err = provisioner.NewPlan(ctx, env, out.nodes, out.baseDir); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, exit.Usagef("%s: %w", f.file, err)
	}
	for _, w := range out.plan.Warnings {
		_, _ = fmt.Fprintf(t.Err, "warning: %s\n", terminal.Clean(w))
	}
	if out.env = complete; complete.Spec.Cluster != nil && out.nodes != nil {
		if err := checkCounts(complete.Spec.Cluster, out.nodes, cmp.Or(f.machines, f.file)); err != nil {
			return nil, err
		}
	}
	out.user = complete.Spec.Username
	return out, f.readLogin(in, out)
}

// readLogin fills in how to log in.
func (f *targetFlags) readLogin(in *request.Input, out *target) error {
	out.connection.CertificateFile, out.connection.KnownHostsFile = f.certificate, f.knownHosts
	switch passphrase := in.Getenv(passphraseVariable); {
	case f.passphraseFile != "":
		secret, err := in.Secret("--passphrase-file", f.passphraseFile)
		if err != nil {
			return err
		}
		out.connection.Passphrase = redact.Secret(secret)
	case passphrase != "":
		out.connection.Passphrase = redact.Secret(passphrase)
	}
	if out.keyPath == "" && in.Getenv("SSH_AUTH_SOCK") != "" {
		out.connection.UseAgent = true
	}
	if out.user == "" {
		current, err := user.Current()
		if err != nil {
			return exit.Usagef("spec.auth.username is not set, and your own name is not known: %w", err)
		}
		out.user = current.Username
	}
	return nil
}

// canLogIn is an error if there is nothing to log in with.
func (t *target) canLogIn() error {
	switch {
	case t.env.Spec.Cluster != nil && t.nodes == nil:
		return exit.Usagef("spec.cluster is set: say by --machines FILE which machines there are")
	case len(t.nodes) == 0:
		return exit.Usagef("which machine? set spec.instance.hostUrl, or give one by --machines")
	case t.keyPath == "" && !t.connection.UseAgent:
		return exit.Usagef("there is no SSH key: set spec.auth.privateKey, use --private-key, or start an SSH agent")
	}
	return nil
}

// listed is a machine of the file.
type listed struct {
	Name string `json:"name,omitempty"`
	api.Machine
}

// readMachines fills in the nodes; nil for a cluster without --machines.
func (f *targetFlags) readMachines(in *request.Input, out *target) error {
	spec := &out.env.Spec
	if f.machines == "" {
		switch {
		case spec.Cluster == nil && spec.HostUrl != "":
			out.nodes = []provisioner.NodeInfo{single(out.env.Name, spec.HostUrl)}
		case spec.Cluster != nil && out.env.Status.Cluster != nil:
			out.nodes = provisioner.NodesFromEnvironment(out.env)
		}
		return nil
	}
	data, err := in.Read("--machines", f.machines)
	if err != nil {
		return err
	}
	var list []listed
	if err := request.Decode(data, &list); err != nil {
		return exit.Usagef("%s: %w", f.machines, err)
	}
	region := spec.Region
	if spec.Cluster != nil {
		region = cmp.Or(spec.Cluster.Region, region)
	}
	count := map[api.Role]int{}
	for i, m := range list {
		n, err := m.node(region, spec.Cluster != nil)
		if err != nil {
			return exit.Usagef("%s: machine %d: %w", f.machines, i, err)
		}
		if n.Name == "" {
			n.Name = fmt.Sprintf("%s-%d", cmp.Or(m.Role, "machine"), count[m.Role])
		}
		count[m.Role]++
		out.nodes = append(out.nodes, n)
	}
	if spec.Cluster != nil {
		return nil
	}
	if len(list) != 1 {
		return exit.Usagef("%s: has %d machines; without spec.cluster it is one", f.machines, len(list))
	}
	m := list[0]
	if spec.HostUrl = m.Address; m.Port != 0 && m.Address != "" {
		spec.HostUrl = net.JoinHostPort(m.Address, strconv.Itoa(m.Port))
	}
	spec.HostUrl = cmp.Or(spec.HostUrl, m.InstanceID)
	return nil
}

// single is the machine of an environment without a cluster; hostURL is host or
// host:port.
func single(name, hostURL string) provisioner.NodeInfo {
	n := provisioner.NodeInfo{Name: cmp.Or(name, hostURL), PublicIP: strings.Trim(hostURL, "[]")}
	if host, port, err := net.SplitHostPort(hostURL); err == nil {
		n.PublicIP = host
		n.Port, _ = strconv.Atoi(port) // NewPlan has the last word on hostURL
	}
	return n
}

func (m listed) node(region string, inCluster bool) (provisioner.NodeInfo, error) {
	n := provisioner.NodeInfo{
		Name: m.Name, Role: string(m.Role), PublicIP: m.Address, SSHUsername: m.User, Port: m.Port, InstanceID: m.InstanceID,
	}
	if m.HostKey != "" {
		n.HostKeys = []string{m.HostKey}
	}
	switch m.Transport {
	case "", api.TransportDirect:
		if m.Address == "" {
			return n, fmt.Errorf("address is required")
		}
	case api.TransportSSM:
		if m.InstanceID == "" {
			return n, fmt.Errorf("instance_id is required with transport ssm")
		}
		if m.Address == "" && inCluster {
			return n, fmt.Errorf("address is required: the one at which the other machines find it")
		}
		n.Transport = &provisioner.SSMTransport{InstanceID: m.InstanceID, Region: region, Port: m.Port}
	default:
		return n, fmt.Errorf("transport must be %s or %s", api.TransportDirect, api.TransportSSM)
	}
	return n, nil
}

// close ends what the nodes' transports have.
func (t *target) close() {
	for _, n := range t.nodes {
		if n.Transport != nil {
			_ = n.Transport.Close() // sessions end by themselves, too
		}
	}
}

// checkCounts compares the machines with the counts of the environment.
func checkCounts(spec *v1alpha1.ClusterSpec, nodes []provisioner.NodeInfo, file string) error {
	have := map[string]int{}
	for _, n := range nodes {
		have[n.Role]++
	}
	workers := 0
	if spec.Workers != nil {
		workers = int(spec.Workers.Count)
	}
	for _, want := range []struct {
		role, field string
		count       int
	}{
		{v1alpha1.NodeRoleControlPlane, "spec.cluster.controlPlane.count", int(spec.ControlPlane.Count)},
		{v1alpha1.NodeRoleWorker, "spec.cluster.workers.count", workers},
	} {
		if have[want.role] != want.count {
			return exit.Usagef("%s: has %d machines of the role %s; %s is %d", file, have[want.role], want.role, want.field, want.count)
		}
	}
	return nil
}
