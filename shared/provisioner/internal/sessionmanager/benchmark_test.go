package sessionmanager_test

import (
	"io"
	"net"
	"testing"

	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager/sessionmanagertest"
)

// tunnels are ways to a port of this machine, each through one process in
// between: a session, and a plain TCP proxy to compare it with.
var tunnels = []struct {
	name string
	open func(b *testing.B) (here, there net.Conn)
}{
	{"session", func(b *testing.B) (net.Conn, net.Conn) {
		b.Helper()
		atAgent, end := tcpPipe(b)
		w := start(b, &sessionmanagertest.Service{Dial: func() (net.Conn, error) { return atAgent, nil }}, false, nil)
		return w.connect(b), end
	}},
	{"tcp", func(b *testing.B) (net.Conn, net.Conn) {
		b.Helper()
		here, one := tcpPipe(b)
		other, there := tcpPipe(b)
		carry := func(to, from net.Conn) {
			buffer := make([]byte, 32<<10)
			for {
				// Without splice, which would leave the bytes in the kernel.
				n, err := from.Read(buffer)
				if err != nil {
					_ = to.Close()
					return
				}
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
		}
		go carry(one, other)
		go carry(other, one)
		return here, there
	}},
}

func BenchmarkThroughput(b *testing.B) {
	for _, tunnel := range tunnels {
		for _, direction := range []string{"up", "down"} {
			b.Run(tunnel.name+"/"+direction, func(b *testing.B) {
				from, to := tunnel.open(b)
				defer to.Close()
				defer from.Close()
				if direction == "down" {
					from, to = to, from
				}
				chunk := make([]byte, 32<<10)
				b.SetBytes(int64(len(chunk)))
				b.ResetTimer()
				go func() {
					for range b.N {
						if _, err := from.Write(chunk); err != nil {
							return
						}
					}
				}()
				if _, err := io.CopyN(io.Discard, to, int64(b.N)*int64(len(chunk))); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

func BenchmarkLatency(b *testing.B) {
	for _, tunnel := range tunnels {
		b.Run(tunnel.name, func(b *testing.B) {
			here, there := tunnel.open(b)
			defer there.Close()
			defer here.Close()
			go func() { _, _ = io.Copy(there, there) }()
			buffer := make([]byte, 64)
			for b.Loop() {
				if _, err := here.Write(buffer); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(here, buffer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
