package joinfault

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/ssm"
)

// The account, and where a cluster's parameters are in it.
const (
	accountID   = "123456789012"
	region      = "eu-west-1"
	clusterName = "test"
	prefix      = "/kubeopera/" + clusterName + "/"
)

// epoch is when a World begins.
var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// Config is what a World is made of.
type Config struct {
	Dir     string // for the machines' files
	Scripts string // modules/compute/bootstrap
	Standin string // the program of package standin
}

// patience is how long, in real time, a script may compute between two calls.
const patience = 2 * time.Minute

// World is the account during one schedule. All of it belongs to the goroutine in
// Run; scripts and their calls reach that one by channels.
type World struct {
	config   Config
	schedule Schedule
	random   *rand.Rand
	listener *net.UnixListener
	socket   string // of listener

	now    time.Duration // since epoch
	events events
	serial int
	calls  chan *call
	exits  chan *process

	parameters *ssm.Service
	faults     faults.Set
	machines   []*machine
	processes  map[string]*process
	clusters   []*cluster
	published  bool // READY was written, at least once
	pending    int  // faults that have yet to come

	traps      []*trap
	silent     time.Duration // until when the load balancer answers nobody
	joining    *machine
	makes      *machine // runs kubeadm init
	secrets    []string
	kubeconfig map[string]*cluster // by content
	violations []string
	timeline   []string
}

// Run plays a schedule. The error is one of the World's own; what the scripts did
// wrong is in the Result.
func Run(ctx context.Context, config Config, schedule Schedule) (*Result, error) {
	w := &World{
		config: config, schedule: schedule, calls: make(chan *call), exits: make(chan *process), processes: map[string]*process{}, kubeconfig: map[string]*cluster{},
		random: rand.New(rand.NewPCG(schedule.Seed, 1)), //nolint:gosec // a schedule is to be the same for the same seed
	}
	dir, err := os.MkdirTemp("", "joinfault-") // a socket's path has at most 107 bytes
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	w.socket = filepath.Join(dir, "socket")
	if err := w.prepare(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		w.accept(ctx)
	}()
	err = w.play(ctx)
	for _, p := range w.processes {
		w.end(p)
	}
	cancel()
	_ = w.listener.Close()
	<-accepted
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, strings.Join(w.timeline, "\n"))
	}
	return w.result(), nil
}

func (w *World) prepare(ctx context.Context) error {
	var err error
	w.parameters, err = ssm.New(ssm.Config{AccountID: accountID, Now: w.time})
	if err != nil {
		return err
	}
	for _, name := range seeded(w.schedule.ControlPlanes) {
		if err := w.parameters.Put(region, prefix+name, "PENDING"); err != nil {
			return err
		}
	}
	if err := w.installStandins(); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", w.socket)
	if err != nil {
		return err
	}
	w.listener = listener.(*net.UnixListener)
	for i := range w.schedule.ControlPlanes {
		if err := w.launch(i, false); err != nil {
			return err
		}
	}
	for i := range w.schedule.Workers {
		if err := w.launch(i, true); err != nil {
			return err
		}
	}
	w.arm()
	return nil
}

// seeded are the parameters that Terraform makes.
func seeded(controlPlanes int) []string {
	names := []string{"join_token", "ca_cert_hash", "admin_kubeconfig", "k8s_api_endpoint", "k8s_certificate_key", "cluster_state"}
	for i := range controlPlanes {
		names = append(names, fmt.Sprintf("control_plane_joined/%d", i), fmt.Sprintf("bootstrap_status/control-plane-%d", i))
	}
	return names
}

// The programs of machines that the World answers, and those that do nothing of
// interest here. All others are real.
var (
	answered = []string{"aws", "curl", "kubeadm", "kubectl", "systemctl", "containerd", "sleep", "date", "timeout", "flock"}
	idle     = []string{"modprobe", "sysctl", "swapoff"}
)

func (w *World) bin() string { return filepath.Join(w.config.Dir, "bin") }

func (w *World) installStandins() error {
	if err := os.Mkdir(w.bin(), 0o755); err != nil {
		return err
	}
	for _, name := range answered {
		if err := os.Symlink(w.config.Standin, filepath.Join(w.bin(), name)); err != nil {
			return err
		}
	}
	for _, name := range idle {
		if err := os.Symlink("/bin/true", filepath.Join(w.bin(), name)); err != nil {
			return err
		}
	}
	return nil
}

// limit is when, in the World's time, every node must have ended. Faults come in the
// first hour.
const limit = 6 * time.Hour

// play lets time go by until every node has ended.
func (w *World) play(ctx context.Context) error {
	for {
		if err := w.settle(ctx); err != nil {
			return err
		}
		if w.over() {
			return nil
		}
		if w.now > limit || len(w.events) == 0 {
			w.violate("not over after %s", w.now)
			return nil
		}
		e := heap.Pop(&w.events).(*event)
		w.now = e.at
		e.do()
	}
}

// settle waits until every script waits.
func (w *World) settle(ctx context.Context) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for w.computing() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return fmt.Errorf("a script did not come to its next call within %s", patience)
		case c := <-w.calls:
			w.begin(c)
		case p := <-w.exits:
			w.exited(p)
		}
	}
	return nil
}

func (w *World) computing() bool {
	for _, p := range w.processes {
		if len(p.calls) == 0 {
			return true
		}
	}
	return false
}

// over says whether nothing more will happen: no fault is to come, and every unit
// has succeeded or given up.
func (w *World) over() bool {
	if w.pending > 0 {
		return false
	}
	for _, m := range w.machines {
		if m.state != "terminated" && (m.state != "running" || !m.on || !m.unitEnded()) {
			return false
		}
	}
	return true
}

// time is what a clock says that is right.
func (w *World) time() time.Time { return epoch.Add(w.now) }

// after does something later.
func (w *World) after(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.events, &event{at: w.now + max(d, 0), serial: w.serial, do: do})
}

// between draws a duration.
func (w *World) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)+1))
}

// note adds a line to the timeline.
func (w *World) note(who, format string, args ...any) {
	w.timeline = append(w.timeline, fmt.Sprintf("%9.1fs  %-22s %s", w.now.Seconds(), who, fmt.Sprintf(format, args...)))
}

// violate notes a promise that was broken.
func (w *World) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.violations = append(w.violations, fmt.Sprintf("at %.1fs: %s", w.now.Seconds(), text))
	w.note("VIOLATION", "%s", text)
}

// event is something that is due.
type event struct {
	at     time.Duration
	serial int // of two at the same time the older one comes first
	do     func()
}

type events []*event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].serial < e[j].serial
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(*event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
