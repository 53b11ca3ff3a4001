package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kubeopera/platform/sim/process"
)

const managerBinary = "kube-controller-manager"

// controllers are those that the platform's own objects need: Jobs with their
// clean-up, namespaces and accounts, the CA that pods mount, and Deployments with
// their Services. The node lifecycle controller is left out: a node that is
// stopped on purpose must not be evicted from.
func controllers() []string {
	return []string{
		"job-controller", "cronjob-controller", "ttl-after-finished-controller",
		"garbage-collector-controller", "pod-garbage-collector-controller",
		"namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
		"root-ca-certificate-publisher-controller", "clusterrole-aggregation-controller",
		"deployment-controller", "replicaset-controller", "endpointslice-controller", "resourcequota-controller",
	}
}

// controllerManager is the running process.
type controllerManager struct {
	command *exec.Cmd
	ended   chan struct{} // closed once it has been waited for
}

// startControllerManager starts it and waits until it is healthy.
func (c *ControlPlane) startControllerManager(ctx context.Context, certificates string) (*controllerManager, error) {
	kubeconfig := filepath.Join(certificates, managerBinary+".kubeconfig")
	admin, err := c.AdminKubeconfig()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(kubeconfig, admin, 0o600); err != nil {
		return nil, err
	}
	authority := filepath.Join(certificates, "ca.crt")
	if err := os.WriteFile(authority, c.authority.PEM(), 0o600); err != nil {
		return nil, err
	}
	authorityKey := filepath.Join(certificates, "ca.key")
	key, err := c.authority.KeyPEM()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(authorityKey, key, 0o600); err != nil {
		return nil, err
	}
	names := c.config.Controllers
	if names == nil {
		names = controllers()
	}
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	output, err := c.logFile(managerBinary)
	if err != nil {
		return nil, err
	}

	command := exec.Command(filepath.Join(c.config.Assets, managerBinary), //nolint:noctx // ended by stop, with grace
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--leader-elect=false", "--bind-address="+address, "--secure-port="+strconv.Itoa(port),
		"--cert-dir="+filepath.Join(certificates, managerBinary),
		"--root-ca-file="+authority, "--service-account-private-key-file="+filepath.Join(certificates, signerName+".key"),
		"--use-service-account-credentials=false", "--kube-api-qps=100", "--kube-api-burst=200",
		"--cluster-signing-cert-file="+authority, "--cluster-signing-key-file="+authorityKey,
		"--controllers="+strings.Join(names, ","))
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for the caller, who stops in order
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", managerBinary, err)
	}
	manager := &controllerManager{command: command, ended: make(chan struct{})}
	go func() {
		defer close(manager.ended)
		_ = command.Wait() // it is ended by a signal, or its log says why
	}()
	if err := manager.healthy(ctx, port); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for %s (log in %s): %w", managerBinary, c.logDir(), err), manager.stop())
	}
	return manager, nil
}

// healthy waits until the process answers that it is.
func (m *controllerManager) healthy(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not healthy within %s", startTimeout))
	defer cancel()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // its own self-signed certificate, on 127.0.0.1
	defer transport.CloseIdleConnections()
	url := "https://" + net.JoinHostPort(address, strconv.Itoa(port)) + "/healthz"
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
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
		case <-m.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the process and waits for it.
func (m *controllerManager) stop() error {
	if err := m.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", managerBinary, err)
	}
	select {
	case <-m.ended:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := m.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", managerBinary, err)
	}
	<-m.ended
	return nil
}
