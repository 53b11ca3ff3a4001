package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/kubeopera/platform/sim/podnetwork"
	"github.com/kubeopera/platform/sim/sandbox"
)

// address is the node's, and that of every pod where there is no pod network.
const address = "127.0.0.1"

// ErrNotFound says that the node has no such pod or container.
var ErrNotFound = errors.New("not on this node")

// Config says what the node is. Only RESTConfig, TLS and Dir must be set.
type Config struct {
	// Name is the Node object's; "simulator" if empty.
	Name string
	// RESTConfig is for a client with all rights.
	RESTConfig *rest.Config
	// TLS is for the server from which kube-apiserver fetches logs.
	TLS *tls.Config
	// Dir is for volumes and logs. Secrets, ConfigMaps and tokens are kept in
	// memory only. It is made if need be.
	Dir string
	// Network gives pods addresses of their own; nil: they have this machine's. The
	// API server must know of it (podnetwork.Network.Egress).
	Network *podnetwork.Network
	// Images are those that can be pulled, by the exact name that pods use.
	Images map[string]Image
	// Capacity is what pods may request in sum; large if nil, since nothing
	// enforces it.
	Capacity corev1.ResourceList
	// Labels are the Node object's, besides its host name, system and architecture.
	Labels map[string]string
	// Backoff is the first pause after a failed pull or a crash, and doubles; the
	// kubelet's 10 s if 0.
	Backoff time.Duration
	// MaxLogBytes bounds the log that is kept of a container (twice that on
	// disk); 10 MiB if 0.
	MaxLogBytes int64
	// Log gets what happens on the node, not what containers print.
	Log *slog.Logger
}

// Node runs pods. Make one with New.
type Node struct {
	config Config
	client kubernetes.Interface
	events record.EventRecorder
	images images
	server *url.URL // kube-apiserver, for the containers' environment
	ready  chan struct{}
	pause  *pause

	mu      sync.Mutex
	workers map[types.UID]*worker
	// finished are pods that must not be run again although the watch may still
	// bring an older state of theirs.
	finished map[types.UID]bool
}

// New makes a node; Run starts it.
func New(config Config) (*Node, error) {
	switch {
	case config.RESTConfig == nil:
		return nil, errors.New("make node: RESTConfig is not set")
	case config.TLS == nil:
		return nil, errors.New("make node: TLS is not set")
	case config.Dir == "":
		return nil, errors.New("make node: Dir is not set")
	case !sandbox.Inside():
		return nil, errors.New("make node: the program is not in a sandbox; call sandbox.Enter first thing in main or TestMain")
	}
	if config.Name == "" {
		config.Name = "simulator"
	}
	if config.Backoff == 0 {
		config.Backoff = 10 * time.Second
	}
	if config.MaxLogBytes == 0 {
		config.MaxLogBytes = 10 << 20
	}
	if config.Capacity == nil {
		config.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("256"),
			corev1.ResourceMemory: resource.MustParse("1Ti"),
			corev1.ResourcePods:   resource.MustParse("1000"),
		}
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	server, err := url.Parse(config.RESTConfig.Host)
	if err != nil || server.Port() == "" {
		return nil, fmt.Errorf("make node: %q is not the URL of an API server with its port", config.RESTConfig.Host)
	}
	restConfig := rest.CopyConfig(config.RESTConfig)
	restConfig.QPS = -1 // tests wait for every request
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("make node: %w", err)
	}
	return &Node{
		config:   config,
		client:   client,
		server:   server,
		images:   newImages(config.Images),
		ready:    make(chan struct{}),
		pause:    newPause(),
		workers:  map[types.UID]*worker{},
		finished: map[types.UID]bool{},
	}, nil
}

// Ready is closed once pods are taken.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Run registers the node and runs pods until ctx ends. It returns when all
// containers have been killed; the pods' objects stay as they are.
func (n *Node) Run(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("run node: %w", err)
		}
	}()
	unmount, err := n.prepareDir()
	if err != nil {
		return err
	}
	defer unmount()

	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return err
	}
	port, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("unexpected address %v", listener.Addr())
	}

	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: n.client.CoreV1().Events("")})
	n.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: n.config.Name})
	schedulerEvents := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "default-scheduler"})

	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return n.serve(running, listener) })
	group.Go(func() error {
		if err := n.register(running, port.Port); err != nil {
			return err
		}
		group.Go(func() error { return n.heartbeat(running) })
		group.Go(func() error { return newBinder(n, schedulerEvents).run(running) })
		return n.runPods(running)
	})
	err = group.Wait()
	if ctx.Err() != nil {
		return nil // it was to end
	}
	return err
}

// prepareDir makes the directories, with one in memory for what must not touch
// the disk. Its mount is seen in the sandbox only.
func (n *Node) prepareDir() (unmount func(), err error) {
	for _, dir := range []string{n.podsDir(), n.memoryDir(), n.logsDir(), n.rootDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := unix.Mount("tmpfs", n.memoryDir(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"); err != nil {
		return nil, fmt.Errorf("mount %s: %w", n.memoryDir(), err)
	}
	return func() { _ = unix.Unmount(n.memoryDir(), unix.MNT_DETACH) }, nil
}

func (n *Node) podsDir() string   { return filepath.Join(n.config.Dir, "pods") }
func (n *Node) memoryDir() string { return filepath.Join(n.config.Dir, "memory") }
func (n *Node) logsDir() string   { return filepath.Join(n.config.Dir, "logs") }

// rootDir is an empty directory over which each container mounts its root.
func (n *Node) rootDir() string { return filepath.Join(n.config.Dir, "root") }

// Evict ends a pod as the kubelet does under pressure: one second after SIGTERM
// its containers are killed, and the pod is Failed with the reason Evicted. It
// does not wait for that.
func (n *Node) Evict(namespace, name, message string) error {
	w, err := n.worker(namespace, name)
	if err != nil {
		return fmt.Errorf("evict pod %s/%s: %w", namespace, name, err)
	}
	n.events.Event(w.reference(), corev1.EventTypeWarning, "Evicted", message)
	w.stop(time.Second, &verdict{reason: "Evicted", message: message, condition: &corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: corev1.PodReasonTerminationByKubelet, Message: message,
	}})
	return nil
}

// KillOutOfMemory ends a container as the kernel does when its memory limit is
// reached: SIGKILL, exit code 137, reason OOMKilled.
func (n *Node) KillOutOfMemory(namespace, name, container string) error {
	w, err := n.worker(namespace, name)
	if err == nil {
		err = w.killOutOfMemory(container)
	}
	if err != nil {
		return fmt.Errorf("kill container %s of pod %s/%s: %w", container, namespace, name, err)
	}
	return nil
}

// worker finds the worker of a pod by name.
func (n *Node) worker(namespace, name string) (*worker, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.workers {
		if w.namespace == namespace && w.name == name {
			return w, nil
		}
	}
	return nil, ErrNotFound
}
