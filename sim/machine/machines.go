package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/aws"
	"github.com/kubeopera/platform/sim/aws/account"
	"github.com/kubeopera/platform/sim/aws/gateway"
	"github.com/kubeopera/platform/sim/machine/cluster"
	"github.com/kubeopera/platform/sim/machine/sshd"
	"github.com/kubeopera/platform/sim/machine/web"
)

const (
	// pollInterval is how long a machine may lag behind its instance.
	pollInterval = time.Second
	// atOnce is how many machines start or stop at the same time.
	atOnce = 4
	// apiPort is where API servers listen, and load balancers in front of them.
	apiPort = 6443
)

// DefaultKubeadmWait is long enough for a busy machine.
const DefaultKubeadmWait = 20 * time.Second

// Config says for which account to run machines. Account, Dir and Assets are
// required.
type Config struct {
	Account *aws.Account
	Dir     string // for disks and logs; made if need be
	Assets  string // the control plane's binaries, for clusters
	Kubectl string // empty: the one on PATH
	// Settings go into the override file of every machine's bootstrap.
	Settings map[string]string
	// KubeadmWait is how long kubeadm join waits for anything, where the real one
	// waits for minutes; 0: DefaultKubeadmWait.
	KubeadmWait time.Duration
	// SSHD finds sshd when the first existing machine is launched (FindSSHD); nil:
	// none can be launched.
	SSHD func(context.Context) (sshd.Server, error)
	Log  *slog.Logger
}

// Machines are the machines of an account.
type Machines struct {
	config Config
	host   host // what machines see of this one
	web    *web.Web
	owner  *owner
	look   chan struct{} // wakes Run up

	following  sync.Mutex
	refreshing sync.Mutex
	finding    sync.Mutex // of host.sshd

	mu       sync.Mutex
	regions  map[string]bool // where instances were launched
	machines map[string]*Machine
	clusters map[string]*runningCluster
	numbers  int
	routes   []aws.Address
	fronts   map[netip.Addr]*front // listeners on this machine's own network
	awaited  map[string]*Existing  // by the mark of the instance that is launched
	wait     sync.WaitGroup
	stopping bool
}

// runningCluster is a cluster with what keeps it.
type runningCluster struct {
	*cluster.Cluster
	stop context.CancelFunc
	done chan struct{}
}

// New makes machines of no instance yet.
func New(ctx context.Context, config Config) (*Machines, error) {
	if config.Account == nil || config.Dir == "" || config.Assets == "" {
		return nil, errors.New("machines: account, directory and assets are required")
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.KubeadmWait == 0 {
		config.KubeadmWait = DefaultKubeadmWait
	}
	if err := os.MkdirAll(config.Dir, 0o755); err != nil {
		return nil, err
	}
	stand, err := web.New()
	if err != nil {
		return nil, fmt.Errorf("machines: %w", err)
	}
	h, err := findHost(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("machines: %w", err)
	}
	return &Machines{
		config: config, host: h, web: stand, regions: map[string]bool{}, machines: map[string]*Machine{},
		clusters: map[string]*runningCluster{}, fronts: map[netip.Addr]*front{}, awaited: map[string]*Existing{},
		owner: &owner{account: config.Account}, look: make(chan struct{}, 1),
	}, nil
}

// Run follows the account's instances until ctx ends; then it ends all machines.
func (ms *Machines) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := ms.follow(ctx); err != nil && ctx.Err() == nil {
			ms.config.Log.WarnContext(ctx, "instances not seen", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-ms.look:
		case <-time.After(pollInterval):
		}
	}
	return ms.end(context.WithoutCancel(ctx))
}

// follow looks at the account once.
func (ms *Machines) follow(ctx context.Context) error {
	ms.following.Lock()
	defer ms.following.Unlock()
	var problems []error
	var routes []aws.Address
	for _, region := range ms.seenRegions() {
		instances, err := ms.config.Account.Instances(ctx, region)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		problems = append(problems, ms.adaptAll(ctx, instances))
		addresses, err := ms.config.Account.Addresses(ctx, region)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		routes = append(routes, addresses...)
	}
	if err := errors.Join(problems...); err == nil {
		ms.mu.Lock()
		ms.routes = routes
		ms.mu.Unlock()
		problems = append(problems, ms.openFronts(ctx, routes))
	}
	ms.dropClusters(ctx)
	ms.refresh()
	return errors.Join(problems...)
}

// adaptAll adapts machines to their instances, some at a time.
func (ms *Machines) adaptAll(ctx context.Context, instances []account.Instance) error {
	problems := make([]error, len(instances))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, instance := range instances {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := ms.adapt(ctx, instance); err != nil {
				problems[i] = fmt.Errorf("instance %s: %w", instance.ID, err)
			}
		})
	}
	all.Wait()
	return errors.Join(problems...)
}

// seenRegions are those in which somebody ever launched something. Without any,
// following costs nothing.
func (ms *Machines) seenRegions() []string {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, operation := range []string{"RunInstances", "CreateAutoScalingGroup", "AllocateAddress", "CreateLoadBalancer"} {
		for _, call := range ms.config.Account.Calls(gateway.CallFilter{Operation: operation}) {
			ms.regions[call.Region] = true
		}
	}
	return slices.Sorted(maps.Keys(ms.regions))
}

// end ends all machines and clusters.
func (ms *Machines) end(ctx context.Context) error {
	ms.mu.Lock()
	ms.stopping = true
	machines := slices.Collect(maps.Values(ms.machines))
	clusters := slices.Collect(maps.Values(ms.clusters))
	fronts := slices.Collect(maps.Values(ms.fronts))
	ms.mu.Unlock()
	for _, f := range fronts {
		f.close()
	}
	for _, m := range machines {
		m.close()
	}
	ms.wait.Wait()
	var problems []error
	for _, c := range clusters {
		problems = append(problems, c.end(ctx))
	}
	return errors.Join(problems...)
}

func (c *runningCluster) end(ctx context.Context) error {
	c.stop()
	<-c.done
	return c.Stop(ctx)
}

// Machines lists the machines, by their instances' ids.
func (ms *Machines) Machines() []*Machine {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	list := slices.Collect(maps.Values(ms.machines))
	slices.SortFunc(list, func(a, b *Machine) int { return a.started.Compare(b.started) })
	return list
}

// Machine gives the machine of an instance.
func (ms *Machines) Machine(instanceID string) (*Machine, bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m, ok := ms.machines[instanceID]
	return m, ok
}

// Clusters lists the clusters that kubeadm init has made and that still have a
// machine.
func (ms *Machines) Clusters() []*cluster.Cluster {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	var list []*cluster.Cluster
	for _, id := range slices.Sorted(maps.Keys(ms.clusters)) {
		list = append(list, ms.clusters[id].Cluster)
	}
	return list
}

// Inits counts how often kubeadm init has made a cluster.
func (ms *Machines) Inits() int {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.numbers
}

func (ms *Machines) clusterOf(id string) (*runningCluster, bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	c, ok := ms.clusters[id]
	return c, ok
}

// newClusterID numbers clusters, and gives each a directory.
func (ms *Machines) newClusterID() (id, dir string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.numbers++
	id = "cluster-" + strconv.Itoa(ms.numbers)
	return id, filepath.Join(ms.config.Dir, id)
}

// dropClusters ends clusters of which no disk has anything left.
func (ms *Machines) dropClusters(ctx context.Context) {
	ms.mu.Lock()
	var dropped []*runningCluster
	for id, c := range ms.clusters {
		used := slices.ContainsFunc(slices.Collect(maps.Values(ms.machines)), func(m *Machine) bool { return m.holds(id) })
		if !used {
			dropped = append(dropped, c)
			delete(ms.clusters, id)
		}
	}
	ms.mu.Unlock()
	for _, c := range dropped {
		if err := c.end(ctx); err != nil {
			ms.config.Log.WarnContext(ctx, "cluster not stopped well", "cluster", c.ID(), "error", err)
		}
	}
}
