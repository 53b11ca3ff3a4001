package gitops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kubeopera/platform/sim/process"
)

// Namespace is Flux's.
const Namespace = "flux-system"

const (
	// fluxTimeout is for one controller to start, on a machine that is busy.
	fluxTimeout = 90 * time.Second
	// fluxGrace is how long one may take to end. It has nothing to save.
	fluxGrace = 3 * time.Second
	// crdTimeout is for the API server to serve new kinds.
	crdTimeout = time.Minute
)

// flux is what InstallFlux started.
type flux struct {
	processes []*process.Process
	stopHelm  func()
}

// InstallFlux installs Flux's kinds and starts its controllers, as
// host-cluster-controller does on a new cluster. After StopFlux it starts them
// again.
func (t *Target) InstallFlux(ctx context.Context) error {
	t.installing.Lock()
	defer t.installing.Unlock()
	t.mu.Lock()
	running := t.flux != nil
	t.mu.Unlock()
	if running {
		return errors.New("install Flux: it runs already")
	}
	if _, err := envtest.InstallCRDs(t.config.ControlPlane.RESTConfig(), envtest.CRDInstallOptions{
		Paths: t.config.Tools.fluxCRDs(), ErrorIfPathMissing: true, MaxTime: crdTimeout,
	}); err != nil {
		return fmt.Errorf("install Flux: %w", err)
	}
	if err := t.makeNamespace(ctx, Namespace); err != nil {
		return fmt.Errorf("install Flux: %w", err)
	}
	f := &flux{stopHelm: func() {}}
	if err := t.startControllers(ctx, f); err != nil {
		f.stop()
		return fmt.Errorf("install Flux: %w", err)
	}
	f.stopHelm = t.startHelm(ctx)
	t.mu.Lock()
	t.flux = f
	t.mu.Unlock()
	return nil
}

// StopFlux stops the controllers; what they made stays.
func (t *Target) StopFlux() {
	t.installing.Lock()
	defer t.installing.Unlock()
	t.mu.Lock()
	f := t.flux
	t.flux = nil
	t.mu.Unlock()
	if f != nil {
		f.stop()
	}
}

func (f *flux) stop() {
	f.stopHelm()
	var all sync.WaitGroup
	for _, p := range f.processes {
		all.Go(func() { _ = p.Stop(fluxGrace) }) // it may be waiting for an object's health for minutes
	}
	all.Wait()
}

// startControllers starts source-controller and kustomize-controller side by side.
func (t *Target) startControllers(ctx context.Context, f *flux) error {
	env, err := t.fluxEnvironment()
	if err != nil {
		return err
	}
	storage := filepath.Join(t.config.Dir, "artifacts")
	if err := os.MkdirAll(storage, 0o700); err != nil {
		return err
	}
	type controller struct {
		name, path, health string
		args               []string
	}
	controllers := []controller{
		{
			name: "source-controller", path: t.config.Tools.sourceController(), health: t.addresses.sourceHealth,
			args: []string{"--storage-path=" + storage, "--storage-addr=" + t.addresses.artifacts, "--storage-adv-addr=" + t.addresses.artifacts},
		},
		{
			name: "kustomize-controller", path: t.config.Tools.kustomizeController(), health: t.addresses.kustomizeHealth,
			// Thirty seconds by default: most of a test's time.
			args: []string{"--requeue-dependency=1s"},
		},
	}
	for _, c := range controllers {
		p, err := process.Start(ctx, c.path, t.LogFile(c.name), env, append(c.args,
			"--health-addr="+c.health, "--enable-leader-election=false", "--events-addr=", "--metrics-addr=0", "--log-level=info", "--watch-all-namespaces=true")...)
		if err != nil {
			return err
		}
		f.processes = append(f.processes, p)
	}
	for i, c := range controllers {
		if err := awaitHealth(ctx, f.processes[i], c.health); err != nil {
			return fmt.Errorf("%s (log in %s): %w", c.name, t.LogFile(c.name), err)
		}
	}
	return nil
}

// fluxEnvironment writes the files that Flux's controllers read and gives their
// environment.
func (t *Target) fluxEnvironment() ([]string, error) {
	kubeconfig := filepath.Join(t.config.Dir, "flux.kubeconfig")
	authorities := filepath.Join(t.config.Dir, "charts-ca.crt")
	admin, err := t.Kubeconfig()
	if err != nil {
		return nil, err
	}
	for file, content := range map[string][]byte{kubeconfig: admin, authorities: t.charts.CA()} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return nil, err
		}
	}
	home := filepath.Join(t.config.Dir, "tmp")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	return []string{
		"KUBECONFIG=" + kubeconfig, "RUNTIME_NAMESPACE=" + Namespace, "HOME=" + home, "TMPDIR=" + home,
		"PATH=/usr/local/bin:/usr/bin:/bin",
		// The world's chart repositories are the simulator's; a Git server on this
		// machine is reached directly.
		"HTTPS_PROXY=" + t.charts.ProxyURL(), "SSL_CERT_FILE=" + authorities,
	}, nil
}

// LogFile is where a controller's output goes: source-controller's or
// kustomize-controller's.
func (t *Target) LogFile(controller string) string {
	return filepath.Join(t.config.Dir, "logs", controller+".log")
}

// awaitHealth waits until a controller answers that it is ready.
func awaitHealth(ctx context.Context, p *process.Process, address string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fluxTimeout, fmt.Errorf("not ready within %s", fluxTimeout))
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
		if err != nil {
			return err
		}
		if response, err := transport.RoundTrip(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.Ended():
			return fmt.Errorf("it ended: %w", p.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// fluxAddresses are where Flux's controllers listen.
type fluxAddresses struct{ sourceHealth, artifacts, kustomizeHealth string }

// findAddresses finds addresses of this machine that nobody listens on right now.
func findAddresses(ctx context.Context) (fluxAddresses, error) {
	var a fluxAddresses
	for _, address := range []*string{&a.sourceHealth, &a.artifacts, &a.kustomizeHealth} {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return a, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }() // at the end, so that all differ
		*address = listener.Addr().String()
	}
	return a, nil
}
