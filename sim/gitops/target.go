package gitops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/gitops/chartrepository"
	"github.com/kubeopera/platform/sim/node"
	"github.com/kubeopera/platform/sim/podnetwork"
)

// nodeTimeout is for the node, on a machine that is busy with builds.
const nodeTimeout = time.Minute

// Workloads completes the configuration of a control plane that is to be a
// target: it reaches pods through their network, and has the controllers that
// workloads need.
func Workloads(config controlplane.Config, pods *podnetwork.Network) controlplane.Config {
	flags := map[string]string{"egress-selector-config-file": pods.Egress()}
	maps.Copy(flags, config.Flags)
	config.Flags = flags
	config.ControllerManager = true
	config.Controllers = []string{
		"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
		"job-controller", "cronjob-controller", "ttl-after-finished-controller", "disruption-controller",
		"endpointslice-controller", "garbage-collector-controller", "pod-garbage-collector-controller",
		"namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
		"root-ca-certificate-publisher-controller", "clusterrole-aggregation-controller",
	}
	return config
}

// Config says what makes a target. Images and Log may be left out.
type Config struct {
	// ControlPlane was started with what Workloads gave.
	ControlPlane *controlplane.ControlPlane
	// Pods is the network that Workloads was given.
	Pods  *podnetwork.Network
	Tools Tools
	// Dir is for volumes, logs and Flux's artifacts. It is made if need be.
	Dir string
	// Images are those that pods can run besides the sealed-secrets controller's.
	Images map[string]node.Image
	Log    *slog.Logger
}

// Target is a cluster that a GitOps tree can be applied to. Its methods may be
// called concurrently, but for Stop.
type Target struct {
	config     Config
	client     client.Client
	kubernetes kubernetes.Interface
	node       *node.Node
	stopNode   func() error
	charts     *chartrepository.Repositories

	installing sync.Mutex // held while Flux starts or stops
	// addresses are those of Flux's controllers. As behind a Service, they are the same
	// after a restart: objects hold the addresses of artifacts.
	addresses fluxAddresses

	mu             sync.Mutex
	flux           *flux // nil: not installed, or stopped
	faults         map[client.ObjectKey]ReleaseFault
	controllerArgs []string
	brokenImage    bool
}

// Start runs the target's node and returns once it takes pods. The control plane
// and the pod network stay the caller's, who stops them after the target.
func Start(ctx context.Context, config Config) (*Target, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(filepath.Join(config.Dir, "logs"), 0o700); err != nil {
		return nil, err
	}
	rest := config.ControlPlane.RESTConfig()
	rest.QPS = -1
	t := &Target{config: config, faults: map[client.ObjectKey]ReleaseFault{}}
	var err error
	if t.client, err = client.New(rest, client.Options{}); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	if t.kubernetes, err = kubernetes.NewForConfig(rest); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	if t.addresses, err = findAddresses(ctx); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	if err := t.startNode(ctx); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	if t.charts, err = chartrepository.Start(ctx, config.Log); err != nil {
		return nil, errors.Join(fmt.Errorf("target: %w", err), t.stopNode())
	}
	return t, nil
}

func (t *Target) startNode(ctx context.Context) error {
	n, err := node.New(node.Config{
		Name: "worker-1", RESTConfig: t.config.ControlPlane.RESTConfig(), TLS: t.config.ControlPlane.KubeletTLS(),
		Dir: filepath.Join(t.config.Dir, "node"), Images: t.config.Images, Network: t.config.Pods,
		Backoff: time.Second, Log: t.config.Log,
	})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- n.Run(running) }()
	t.node = n
	t.stopNode = func() error {
		cancel()
		return <-ended
	}
	select {
	case <-n.Ready():
		return nil
	case err := <-ended:
		cancel()
		return fmt.Errorf("the node ended at its start: %w", err)
	case <-time.After(nodeTimeout):
		return errors.Join(fmt.Errorf("the node is not ready after %s", nodeTimeout), t.stopNode())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), t.stopNode())
	}
}

// Stop stops Flux and the node. It is to be called once.
func (t *Target) Stop(context.Context) error {
	t.StopFlux()
	return errors.Join(t.charts.Close(), t.stopNode())
}

// Kubeconfig has all rights and works from a shell of this machine.
func (t *Target) Kubeconfig() ([]byte, error) { return t.config.ControlPlane.AdminKubeconfig() }

// Kubernetes is a client with all rights.
func (t *Target) Kubernetes() kubernetes.Interface { return t.kubernetes }

// Node runs the target's pods.
func (t *Target) Node() *node.Node { return t.node }

// Pods is the pods' network; it can be blocked.
func (t *Target) Pods() *podnetwork.Network { return t.config.Pods }

// Charts are the Helm repositories that source-controller sees.
func (t *Target) Charts() *chartrepository.Repositories { return t.charts }

// Tools are the binaries that the target runs.
func (t *Target) Tools() Tools { return t.config.Tools }
