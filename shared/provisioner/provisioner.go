package provisioner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
	"github.com/kubeopera/platform/shared/redact"
)

// Shebang begins scripts. Those of this package follow it by set +x, so that no
// secret is traced, and by stricter options.
const Shebang = script.Shebang

// How long the functions without a context go on at most.
const (
	connectTimeout = 15 * time.Minute
	runTimeout     = 3 * time.Hour
)

// Provisioner provisions one machine. Its methods may be called one at a time.
type Provisioner struct {
	// Client is the SSH connection. It is replaced when the connection had to be
	// made anew.
	Client *ssh.Client
	// SessionManager is not used; an SSMTransport has its own client.
	SessionManager *ssm.Client

	HostUrl  string //nolint:revive,staticcheck // the seed's name
	UserName string
	KeyPath  string

	log        *logger.FunLogger
	transport  Transport
	connection Connection
	hostKeys   []string
	baseDir    string
	masks      *redact.Redactor

	mu      sync.Mutex
	machine *machine
	bastion func() error
}

var errClosed = errors.New("the connection is closed")

// Option is a functional option for configuring a Provisioner.
type Option func(*Provisioner)

// WithTransport sets the transport used for SSH connections. If not provided, the
// Provisioner defaults to DirectTransport(hostUrl).
func WithTransport(t Transport) Option { return func(p *Provisioner) { p.transport = t } }

// WithConnection sets how to log in, beyond the path of a key.
func WithConnection(c Connection) Option { return func(p *Provisioner) { p.connection = c } }

// WithHostKeys accepts these keys of the machine and no other. They are of the
// form of authorized_keys.
func WithHostKeys(keys ...string) Option { return func(p *Provisioner) { p.hostKeys = keys } }

// WithBaseDir is DependencyResolver.SetBaseDir.
func WithBaseDir(dir string) Option { return func(p *Provisioner) { p.baseDir = dir } }

// New connects to a machine. hostUrl is host or host:port. An error is, or wraps,
// AuthError, HostKeyError or UnreachableError if the connection is at fault.
func New(log *logger.FunLogger, keyPath, userName, hostUrl string, opts ...Option) (*Provisioner, error) { //nolint:revive,staticcheck // the seed's name
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	return NewContext(ctx, log, keyPath, userName, hostUrl, opts...)
}

// NewContext is New that ends with ctx.
func NewContext(ctx context.Context, log *logger.FunLogger, keyPath, userName, hostUrl string, opts ...Option) (*Provisioner, error) { //nolint:revive,staticcheck // the seed's name
	p := &Provisioner{HostUrl: hostUrl, UserName: userName, KeyPath: keyPath, log: log}
	for _, o := range opts {
		o(p)
	}
	p.masks = p.connection.redactor()
	if err := p.connect(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// redactor masks what c holds of secrets.
func (c Connection) redactor() *redact.Redactor {
	r := redact.New(c.Key.Reveal(), c.Passphrase.Reveal())
	if c.Bastion != nil {
		r.Add(c.Bastion.Key.Reveal(), c.Bastion.Passphrase.Reveal())
	}
	return r
}

func (p *Provisioner) connect(ctx context.Context) error {
	if p.transport == nil {
		direct := NewDirectTransport(p.HostUrl)
		dial, done, err := p.connection.dialBastion(ctx, p.log, p.UserName, p.KeyPath)
		if err != nil {
			return err
		}
		p.bastion, p.transport = done, direct
		if dial != nil {
			p.transport = &bastionTransport{direct: direct, dial: dial}
		}
	}
	config, err := p.connection.config(p.log, endpoint{
		name: p.transport.Target(), user: p.UserName, keyPath: p.KeyPath,
		target: target(p.transport), hostKeys: p.hostKeys, transport: p.transport,
	})
	if err != nil {
		return err
	}
	h, err := remote.Connect(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", p.transport.Target(), err)
	}
	p.machine = &machine{name: p.transport.Target(), host: h, log: p.log, masks: p.masks}
	p.Client = h.Client()
	return nil
}

// Close ends the connection and closes the transport.
func (p *Provisioner) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	if p.machine != nil {
		// It may be gone already, which is what is wanted.
		if err := p.machine.host.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
		p.machine = nil
	}
	if p.transport != nil {
		errs = append(errs, p.transport.Close())
	}
	if p.bastion != nil {
		errs = append(errs, p.bastion())
		p.bastion = nil
	}
	return errors.Join(errs...)
}

// Run provisions the environment and returns component provenance status. The
// returned ComponentsStatus captures source/version/commit information for each
// installed component: what the environment asks for, and over it what was found
// on the machine. If a script fails it holds what is there all the same.
//
// If spec.kubernetes.kubeConfig is set the kubeconfig is written there.
//
// Run may be called again after a failure. A script that still runs since then is
// waited for, and one that has done its work does nothing.
func (p *Provisioner) Run(env v1alpha1.Environment) (*v1alpha1.ComponentsStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	return p.RunContext(ctx, env)
}

// RunContext is Run that ends with ctx; the script that is at work then is stopped.
func (p *Provisioner) RunContext(ctx context.Context, env v1alpha1.Environment) (*v1alpha1.ComponentsStatus, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machine == nil {
		return nil, errClosed
	}
	r, err := resolve(&env)
	if err != nil {
		return nil, err
	}
	if env.Spec.Cluster != nil {
		return nil, errors.New("a cluster is provisioned by ClusterProvisioner")
	}
	for _, w := range r.warnings {
		p.log.Warning("%s", w)
	}
	maskTemplates(p.masks, &r.env)
	jobs, err := renderAll(ctx, r.env, r.tasks, script.Node{Address: p.HostUrl}, newTemplateSource(p.baseDir))
	if err != nil {
		return nil, err
	}
	p.machine.scope = scope(&r.env)
	defer func() { p.Client = p.machine.host.Client() }()
	for i, j := range jobs {
		p.log.Info("[%s] %s (%d of %d)", p.machine.name, j.step.Name, i+1, len(jobs))
		if err := p.machine.tryRun(ctx, j); err != nil {
			return p.machine.partial(ctx, &r.env, err)
		}
	}
	if path := r.env.Spec.Kubernetes.KubeConfig; path != "" && r.env.Spec.Kubernetes.Install {
		config, err := p.readKubeconfig(ctx, r.env)
		if err == nil {
			err = writeKubeconfig(path, config)
		}
		if err != nil {
			return p.machine.partial(ctx, &r.env, err)
		}
	}
	return p.machine.observe(ctx, &r.env)
}

// renderAll makes all scripts, before the first of them is executed.
func renderAll(ctx context.Context, env v1alpha1.Environment, tasks []task, node script.Node, source *templateSource) ([]job, error) {
	jobs := make([]job, 0, len(tasks))
	for _, t := range tasks {
		j, err := t.render(ctx, env, node, source)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// tryRun is run for what may be allowed to fail.
func (m *machine) tryRun(ctx context.Context, j job) error {
	err := m.run(ctx, j.step)
	var failed *StepError
	var late *TimeoutError
	if j.mayFail && ctx.Err() == nil && (errors.As(err, &failed) || errors.As(err, &late)) {
		m.log.Warning("[%s] %v; going on", m.name, err)
		return nil
	}
	return err
}

// maskTemplates makes the values that templates get as environment secrets.
func maskTemplates(masks *redact.Redactor, env *v1alpha1.Environment) {
	for _, t := range env.Spec.CustomTemplates {
		for _, v := range t.Env {
			masks.Add(v)
		}
	}
}

// scope tells environments apart whose scripts run on the same machine.
func scope(env *v1alpha1.Environment) string { return env.Namespace + "/" + env.Name }
