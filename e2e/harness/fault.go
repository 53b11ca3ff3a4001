package harness

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"testing"

	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/faultproxy"
)

// Fail arms a fault in AWS for the rest of the test.
func (p *Platform) Fail(tb testing.TB, fault faults.Fault) {
	tb.Helper()
	if _, err := p.AWS.Faults().Add(fault); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.AWS.Faults().Clear)
}

// Reconfigure runs cluster-provisioner with other configuration for the rest of the test.
func (p *Platform) Reconfigure(tb testing.TB, overrides map[string]string) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := errors.Join(p.ClusterProvisioner.Stop(), p.ClusterProvisioner.Start(context.Background(), nil)); err != nil {
			tb.Error(err)
		}
	})
	if err := errors.Join(p.ClusterProvisioner.Stop(), p.ClusterProvisioner.Start(tb.Context(), overrides)); err != nil {
		tb.Fatal(err)
	}
}

// Restart starts cluster-provisioner again after a crash.
func (p *Platform) Restart(tb testing.TB) {
	tb.Helper()
	p.ClusterProvisioner.Kill()
	if err := p.ClusterProvisioner.Start(tb.Context(), nil); err != nil {
		tb.Fatal(err)
	}
}

// CrashAt arms a SIGKILL of cluster-provisioner at a request of its to the API server,
// and gives a channel that closes when it has happened.
func (p *Platform) CrashAt(tb testing.TB, when faultproxy.When, method, path string) <-chan struct{} {
	tb.Helper()
	crashed := make(chan struct{})
	p.ClusterProvisioner.API.Add(faultproxy.Fault{
		Method: method, Path: regexp.MustCompile(path), When: when,
		Do: func(context.Context) int {
			p.ClusterProvisioner.Crash()
			close(crashed)
			return http.StatusServiceUnavailable // nobody is there to see it
		},
	})
	tb.Cleanup(func() {
		if left := p.ClusterProvisioner.API.Clear(); left > 0 {
			tb.Errorf("the crash has not happened")
		}
	})
	return crashed
}
