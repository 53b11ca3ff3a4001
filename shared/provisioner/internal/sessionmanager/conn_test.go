package sessionmanager_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager"
	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager/sessionmanagertest"
	"github.com/kubeopera/platform/shared/skip"
)

// hurry makes Close quick where the agent takes nothing, yet patient with a busy
// machine: it would leave out what is still to come.
func hurry(c *sessionmanager.Config) { c.LingerTimeout = 2 * time.Second }

func TestConn(t *testing.T) {
	t.Parallel()
	for _, network := range []struct {
		name   string
		faults sessionmanagertest.Faults
	}{
		{name: "clean"},
		{name: "lossy", faults: sessionmanagertest.Faults{Lose: 0.02}},
		{name: "reordering", faults: sessionmanagertest.Faults{Reorder: 0.1}},
		{name: "duplicating", faults: sessionmanagertest.Faults{Repeat: 0.1}},
		{name: "all faults and cuts", faults: sessionmanagertest.Faults{Lose: 0.01, Reorder: 0.05, Repeat: 0.05, Damage: 0.005, CutEvery: 1500}},
	} {
		for _, swapped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, swapped=%v", network.name, swapped), func(t *testing.T) {
				t.Parallel()
				nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
					atAgent, end := tcpPipe(t)
					service := &sessionmanagertest.Service{
						Dial: func() (net.Conn, error) { return atAgent, nil }, Faults: network.faults, Resend: 10 * time.Millisecond,
					}
					w := start(t, service, false, hurry)
					c := w.connect(t)
					stop := func() {
						_ = end.Close()
						_ = c.Close()
					}
					if swapped {
						return end, c, stop, nil
					}
					return c, end, stop, nil
				})
			})
		}
	}
}

// TestIntact sends as much in both directions at the same time as `make test`
// has time for, and a gibibyte in `make soak`.
func TestIntact(t *testing.T) {
	t.Parallel()
	size := int64(10 << 20)
	if skip.Soaking() {
		size = 1 << 30
	}
	for _, network := range []struct {
		name   string
		faults sessionmanagertest.Faults
	}{
		{name: "clean"},
		{name: "faults", faults: sessionmanagertest.Faults{Lose: 0.005, Reorder: 0.02, Repeat: 0.02, Damage: 0.001}},
		{name: "cuts", faults: sessionmanagertest.Faults{CutEvery: 5000}},
		{name: "faults and cuts", faults: sessionmanagertest.Faults{Lose: 0.005, Reorder: 0.02, Repeat: 0.02, Damage: 0.001, CutEvery: 5000}},
	} {
		t.Run(network.name, func(t *testing.T) {
			t.Parallel()
			atAgent, end := tcpPipe(t)
			w := start(t, &sessionmanagertest.Service{
				Dial: func() (net.Conn, error) { return atAgent, nil }, Faults: network.faults, Resend: 2 * time.Millisecond,
			}, false, nil)
			c := w.connect(t)
			var all sync.WaitGroup
			transfer := func(from, to net.Conn, seed int64) {
				all.Go(func() {
					if _, err := io.CopyN(from, rand.New(rand.NewSource(seed)), size); err != nil {
						t.Errorf("write: %v", err)
					}
				})
				all.Go(func() {
					want, got := sha256.New(), sha256.New()
					_, _ = io.CopyN(want, rand.New(rand.NewSource(seed)), size)
					if n, err := io.CopyN(got, to, size); err != nil {
						t.Errorf("read after %d bytes: %v", n, err)
					}
					if string(got.Sum(nil)) != string(want.Sum(nil)) {
						t.Error("data has changed on its way")
					}
				})
			}
			transfer(c, end, 1)
			transfer(end, c, 2)
			all.Wait()
			_ = end.Close()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
