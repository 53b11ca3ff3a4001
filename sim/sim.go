package sim

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim/authservice"
	"github.com/kubeopera/platform/sim/aws"
	"github.com/kubeopera/platform/sim/aws/eks"
	"github.com/kubeopera/platform/sim/aws/ekstoken"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/git"
	"github.com/kubeopera/platform/sim/gitops"
	"github.com/kubeopera/platform/sim/machine"
	"github.com/kubeopera/platform/sim/node"
	"github.com/kubeopera/platform/sim/podnetwork"
	"github.com/kubeopera/platform/sim/terraform"
)

// The namespaces that deploy/ makes.
const (
	RunNamespace     = "kubeopera-provisioning"
	ServiceNamespace = "kubeopera-core"
)

// Names of the services, and of their ServiceAccounts in deploy/.
const (
	clusterProvisioner = "cluster-provisioner"
	gitopsScaffolder   = "gitops-scaffolder"
)

const (
	// gitCA is the ConfigMap with the Git server's certificate authority.
	gitCA = "git-server-ca"
	// modulesTag is the pinned ref of the modules repository.
	modulesTag = "v0.1.0"
	// eksDelay is how long EKS takes for anything: long enough to be waited for.
	eksDelay = 2 * time.Second
)

// Config says what to bring up. All but Service and Program is required.
type Config struct {
	Root   string // the checkout
	Bin    string // the built services and runners
	Dir    string // state and logs of this run; emptied first
	Assets string // the control plane's binaries
	Cache  string // what is downloaded once
	Getenv func(string) string
	Log    *slog.Logger
	// Service is configuration of cluster-provisioner on top of the simulator's own.
	Service map[string]string
	// Program is the program in Bin that runs as cluster-provisioner; default:
	// itself. Tests have one whose clusters are made within seconds.
	Program string
}

// Simulator is a running platform.
type Simulator struct {
	Host        *controlplane.ControlPlane // where the services and runs live
	Target      *controlplane.ControlPlane // what every EKS cluster's endpoint leads to
	Kubernetes  kubernetes.Interface       // of Host, with all rights
	Node        *node.Node
	Image       node.Image // what Node has under the name RunnerImage
	AWS         *aws.Account
	Machines    *machine.Machines   // what runs AWS's EC2 instances
	AccessKey   cloudcred.AccessKey // valid in AWS
	Credential  string              // id of AccessKey in AuthService
	AuthService *authservice.Server
	Git         *git.Server
	Modules     *git.Repository
	Trees       *Repository // the platform's own, for GitOps trees

	ClusterProvisioner *Service
	GitOpsScaffolder   *Service

	config         Config
	log            *slog.Logger
	authURL        string
	authKeyFile    string
	modules        fs.FS
	terraform      terraform.Installation
	provisionerKey redact.Secret       // gitops-scaffolder's at cluster-provisioner
	digestSecret   redact.Secret       // gitops-scaffolder's
	pods           *podnetwork.Network // of Target

	mu           sync.Mutex
	close        []func(context.Context) error // in the order of starting
	repositories []*Repository

	starting sync.Mutex     // held while target starts
	target   *gitops.Target // Target as a cluster that trees are applied to; nil: nobody has asked for it
}

// Start brings up everything and returns once the services are ready. It must run
// inside machine.Enter. What started is stopped again if something does not.
func Start(ctx context.Context, config Config) (_ *Simulator, err error) {
	held, err := claim(config.Dir)
	if err != nil {
		return nil, err
	}
	s := &Simulator{config: config, log: config.Log}
	s.onStop(func(context.Context) error { return held.Close() })
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"Terraform", s.findTerraform}, // first, since a download that fails should fail at once
		{"AWS", s.startAWS},
		{"machines", s.startMachines},
		{"host cluster", s.startHost},
		{"node", s.startNode},
		{"auth-service", s.startAuthService},
		{"Git server", s.startGit},
		{clusterProvisioner, s.startClusterProvisioner},
		{gitopsScaffolder, s.startGitOpsScaffolder},
	} {
		started := time.Now()
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("simulator: %s: %w", step.name, err)
		}
		s.log.InfoContext(ctx, "started", "part", step.name, "seconds", time.Since(started).Round(10*time.Millisecond).Seconds())
	}
	return s, nil
}

// Stop stops everything, last started first.
func (s *Simulator) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	for {
		stop := s.lastStarted()
		if stop == nil {
			return errors.Join(errs...)
		}
		errs = append(errs, stop(ctx))
	}
}

// onStop has Stop call f before what was registered earlier.
func (s *Simulator) onStop(f func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close = append(s.close, f)
}

// lastStarted takes what stops the part that started last; nil if there is none.
func (s *Simulator) lastStarted() (stop func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.close) - 1; last >= 0 {
		stop, s.close = s.close[last], s.close[:last]
	}
	return stop
}

func (s *Simulator) findTerraform(ctx context.Context) (err error) {
	s.terraform, err = terraform.Find(ctx, s.config.Getenv, s.config.Cache, s.log)
	return err
}

// startAWS starts the account and the API server to which the endpoints of all
// EKS clusters lead. That one asks the account whom a token stands for.
func (s *Simulator) startAWS(ctx context.Context) error {
	logs := filepath.Join(s.config.Dir, "aws")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	endpoint := &eks.Shared{}
	account, err := aws.Start(ctx, aws.Config{
		LogDir: logs, CacheDir: s.config.Cache, ControlPlanes: endpoint, EKSDelay: eksDelay, Addresses: loopbackBlock(), Log: s.log,
	})
	if err != nil {
		return err
	}
	s.AWS = account
	s.onStop(func(context.Context) error { return account.Close() })
	s.AccessKey = cloudcred.AccessKey{ID: "AKIA" + rand.Text()[:16], Secret: redact.Secret(secretKey())}
	if err := account.RegisterKey(s.AccessKey.ID, s.AccessKey.Secret.Reveal(), s.Principal()); err != nil {
		return err
	}
	webhook, err := account.Tokens().Kubeconfig(nil)
	if err != nil {
		return err
	}
	webhookFile := filepath.Join(logs, "token-webhook.kubeconfig")
	if err := os.WriteFile(webhookFile, webhook, 0o600); err != nil {
		return err
	}
	if s.pods, err = podnetwork.Start(ctx, filepath.Join(s.config.Dir, "target", "pods"), s.log); err != nil {
		return err
	}
	s.onStop(func(context.Context) error { return s.pods.Close() })
	target, err := controlplane.Start(ctx, gitops.Workloads(controlplane.Config{
		Assets: s.config.Assets, Dir: filepath.Join(s.config.Dir, "target"), AuthenticationWebhook: webhookFile, Log: s.log,
	}, s.pods))
	if err != nil {
		return err
	}
	s.Target = target
	s.onStop(target.Stop)
	admin, err := kubernetes.NewForConfig(target.RESTConfig())
	if err != nil {
		return err
	}
	if err := ekstoken.BindPolicies(ctx, admin); err != nil {
		return err
	}
	endpoint.Set(eks.Endpoint{URL: target.URL(), CA: target.CABundle()})
	return writeAdminKubeconfig(target, s.TargetKubeconfig())
}

// loopbackBlock is a block of loopback addresses for load balancers and elastic
// IPs. It is picked at random, so that simulators on one machine hardly ever meet.
func loopbackBlock() netip.Prefix {
	var random [2]byte
	_, _ = rand.Read(random[:]) // it never fails
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 64 + random[0]%64, random[1], 0}), 24)
}

// startMachines lets the account's EC2 instances run.
func (s *Simulator) startMachines(ctx context.Context) error {
	machines, err := machine.New(ctx, machine.Config{
		Account: s.AWS, Dir: filepath.Join(s.config.Dir, "machines"), Assets: s.config.Assets, Log: s.log,
		SSHD: machine.FindSSHD(s.config.Root, false),
	})
	if err != nil {
		return err
	}
	s.Machines = machines
	s.background(ctx, machines.Run)
	return nil
}

// Principal is the ARN of the IAM user whom AccessKey belongs to.
func (s *Simulator) Principal() string {
	return "arn:aws:iam::" + s.AWS.ID() + ":user/platform"
}

func (s *Simulator) startHost(ctx context.Context) error {
	host, err := controlplane.Start(ctx, controlplane.Config{
		Assets:            s.config.Assets,
		Dir:               filepath.Join(s.config.Dir, "host"),
		ControllerManager: true,
		Log:               s.log,
	})
	if err != nil {
		return err
	}
	s.Host = host
	s.onStop(host.Stop)
	if s.Kubernetes, err = kubernetes.NewForConfig(host.RESTConfig()); err != nil {
		return err
	}
	if err := writeAdminKubeconfig(host, s.HostKubeconfig()); err != nil {
		return err
	}
	for _, module := range []string{"provisioner", "scaffolder"} { // the first has the namespaces
		if err := installManifests(ctx, host.RESTConfig(), filepath.Join(s.config.Root, module, "deploy")); err != nil {
			return err
		}
	}
	return nil
}

// HostKubeconfig is a kubeconfig file for the host cluster, with all rights.
func (s *Simulator) HostKubeconfig() string { return filepath.Join(s.config.Dir, "host.kubeconfig") }

// TargetKubeconfig is a kubeconfig file for every EKS cluster, with all rights.
func (s *Simulator) TargetKubeconfig() string {
	return filepath.Join(s.config.Dir, "target.kubeconfig")
}

func writeAdminKubeconfig(plane *controlplane.ControlPlane, file string) error {
	admin, err := plane.AdminKubeconfig()
	if err != nil {
		return err
	}
	return os.WriteFile(file, admin, 0o600)
}

func (s *Simulator) startNode(ctx context.Context) error {
	var err error
	s.Image, err = terraformRunnerImage(
		filepath.Join(s.config.Bin, "terraform-runner"),
		filepath.Join(s.config.Root, "tfrunner", "deploy", "terraform.rc"),
		s.terraform,
	)
	if err != nil {
		return err
	}
	scaffoldRunner, err := scaffoldRunnerImage(s.config.Bin)
	if err != nil {
		return err
	}
	s.Node, err = node.New(node.Config{
		RESTConfig: s.Host.RESTConfig(),
		TLS:        s.Host.KubeletTLS(),
		Dir:        filepath.Join(s.config.Dir, "node"),
		Images:     map[string]node.Image{RunnerImage: s.Image, ScaffoldRunnerImage: scaffoldRunner},
		Backoff:    time.Second,
		Log:        s.log,
	})
	if err != nil {
		return err
	}
	ended := s.background(ctx, s.Node.Run)
	select {
	case <-s.Node.Ready():
		return nil
	case <-ended:
		return errors.New("the node ended at its start") // stopping tells why
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startGit serves the checkout's modules/ the way a team's repository would, and
// has an empty repository for trees.
func (s *Simulator) startGit(ctx context.Context) error {
	server, err := git.Start(ctx, filepath.Join(s.config.Dir, "git"), s.log)
	if err != nil {
		return err
	}
	s.Git = server
	s.onStop(func(context.Context) error { return server.Close() })
	if s.Modules, err = server.Create(ctx, "gitops-iac"); err != nil {
		return err
	}
	s.modules = os.DirFS(filepath.Join(s.config.Root, "modules"))
	if err := s.PublishModules(ctx, nil); err != nil {
		return err
	}
	_, err = s.Kubernetes.CoreV1().ConfigMaps(RunNamespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: gitCA},
		Data:       map[string]string{runcontract.RepositoryCAFile: string(server.CA())}, // where both services look
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	s.Trees, err = s.CreateRepository(ctx, "gitops")
	return err
}

// PublishModules makes the pinned ref of the modules repository hold the
// checkout's modules and, besides, these trees by their folders.
func (s *Simulator) PublishModules(ctx context.Context, besides map[string]fs.FS) error {
	trees := map[string]fs.FS{"modules": s.modules}
	maps.Copy(trees, besides)
	commit, err := s.Modules.Commit(ctx, "modules of the platform", trees)
	if err != nil {
		return err
	}
	return s.Modules.Tag(ctx, modulesTag, commit)
}

func (s *Simulator) startAuthService(ctx context.Context) error {
	key := rand.Text()
	var err error
	if s.authKeyFile, err = s.mount("AUTH_SERVICE_API_KEY_FILE", redact.Secret(key)); err != nil {
		return err
	}
	s.AuthService = authservice.New(key)
	s.Credential = uuid.NewString()
	s.AuthService.PutAccessKey(s.Credential, "simulator", s.AccessKey)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.authURL = "http://" + listener.Addr().String()
	s.background(ctx, func(ctx context.Context) error { return s.AuthService.Serve(ctx, listener) })
	return nil
}

// background runs a part until Stop.
func (s *Simulator) background(ctx context.Context, run func(context.Context) error) <-chan struct{} {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = run(running)
	}()
	s.onStop(func(context.Context) error {
		cancel()
		<-ended
		return err
	})
	return ended
}

// startClusterProvisioner starts the first service, with an API key for the second.
func (s *Simulator) startClusterProvisioner(ctx context.Context) error {
	env := map[string]string{
		"MODULES_REPOSITORY_URL":      s.Modules.URL(),
		"MODULES_REPOSITORY_REF":      modulesTag,
		"MODULES_CA_CONFIGMAP":        gitCA,
		"API_ALLOWED_CIDRS":           "198.51.100.0/24",
		"RUNNER_BACKEND_CONFIG":       "use_path_style=true",
		"CONTROL_PLANE_POLL_INTERVAL": "2s",
		"CONTROL_PLANE_TIMEOUT":       "5m",
	}
	maps.Copy(env, s.config.Service)
	program := cmp.Or(s.config.Program, clusterProvisioner)
	var err error
	if s.ClusterProvisioner, err = s.newService(ctx, clusterProvisioner, filepath.Join(s.config.Bin, program), env); err != nil {
		return err
	}
	key, err := s.ClusterProvisioner.addCaller(gitopsScaffolder)
	if err != nil {
		return err
	}
	s.provisionerKey = redact.Secret(key)
	return s.ClusterProvisioner.Start(ctx, nil)
}

// secretKey is a random AWS secret access key: 40 characters.
func secretKey() string { return (rand.Text() + rand.Text())[:40] }
