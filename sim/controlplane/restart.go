package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubeopera/platform/shared/runner/proctree"
)

// RestartAPIServer kills kube-apiserver, as a crash of its machine does, and
// starts it again with the same arguments. It returns once it serves. All
// connections to it are gone; what it stored is not.
func (c *ControlPlane) RestartAPIServer(ctx context.Context) error {
	pid, args, err := c.findAPIServer()
	if err != nil {
		return fmt.Errorf("restart kube-apiserver: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("restart kube-apiserver: %w", err)
	}
	if c.successor != nil {
		_ = c.successor.Wait() // it was killed just now
	}
	if err := awaitEnd(ctx, pid); err != nil {
		return fmt.Errorf("restart kube-apiserver: %w", err)
	}
	output, err := c.logFile("kube-apiserver")
	if err != nil {
		return err
	}
	c.successor = exec.CommandContext(context.WithoutCancel(ctx), args[0], args[1:]...)
	c.successor.Stdout, c.successor.Stderr = output, output
	if err := c.successor.Start(); err != nil {
		c.successor = nil
		return fmt.Errorf("restart kube-apiserver: %w", err)
	}
	return c.awaitAPIServer(ctx)
}

// awaitEnd waits until a killed process is gone, and with it its listener.
func awaitEnd(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the killed process %d has not ended: %w", pid, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// findAPIServer is the process of kube-apiserver and its command line: envtest's
// library does not tell.
func (c *ControlPlane) findAPIServer() (pid int, args []string, err error) {
	port := c.URL()[strings.LastIndex(c.URL(), ":")+1:]
	for pid, args := range proctree.Arguments() {
		if filepath.Base(args[0]) == "kube-apiserver" && slices.Contains(args, "--secure-port="+port) {
			return pid, args, nil
		}
	}
	return 0, nil, errors.New("it does not run")
}

func (c *ControlPlane) awaitAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("kube-apiserver does not serve after its restart"))
	defer cancel()
	config := c.RESTConfig()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return awaitOK(ctx, client.Transport, c.URL()+"/readyz")
}

// awaitOK asks until the answer is 200, or gives the cause of ctx's end.
func awaitOK(ctx context.Context, transport http.RoundTripper, url string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
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
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// stopSuccessor ends the process that RestartAPIServer started, which envtest
// does not know.
func (c *ControlPlane) stopSuccessor() {
	if c.successor == nil {
		return
	}
	_ = c.successor.Process.Kill() // clients are gone; it has nothing to save
	_ = c.successor.Wait()
	c.successor = nil
}
