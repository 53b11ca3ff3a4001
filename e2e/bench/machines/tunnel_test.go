package machines

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/kubeopera/platform/e2e/bench"
	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/sim"
	simaws "github.com/kubeopera/platform/sim/aws"
	"github.com/kubeopera/platform/sim/aws/sessionmanager"
)

const (
	region     = "eu-west-1"
	instance   = "i-0123456789abcdef0"
	keyID      = "AKIASIMULATOR0000001"
	keySecret  = "simulator/secret+key/000000000000000001"
	transfer   = 64 << 20 // bytes in one direction
	roundTrips = 2000
	repeat     = 5
)

// tunnels measures two ways to the same port of this machine: a session of Session
// Manager, whose agent and service are the simulator's, and a proxy that copies.
func tunnels(b *testing.B, table *bench.Table) {
	b.Helper()
	port := sink(b)
	transport := session(b, port)
	proxy := plain(b, port)
	dial := []func() (net.Conn, error){
		func() (net.Conn, error) { return transport.DialContext(b.Context()) },
		func() (net.Conn, error) { return new(net.Dialer).DialContext(b.Context(), "tcp", proxy) },
	}
	var opens, ups, downs, trips [2]bench.Samples
	for range repeat {
		for i := range dial { // in turn: whatever else the machine does, it does to both
			began := time.Now()
			one(b, dial[i], 'e', func(c net.Conn) error { return echo(c, 1, nil) })
			opens[i] = append(opens[i], time.Since(began))
			one(b, dial[i], 'u', func(c net.Conn) error { return timed(&ups[i], func() error { return up(c) }) })
			one(b, dial[i], 'd', func(c net.Conn) error { return timed(&downs[i], func() error { return down(c) }) })
			one(b, dial[i], 'e', func(c net.Conn) error { return echo(c, roundTrips/repeat, &trips[i]) })
		}
	}
	rate := func(s bench.Samples) float64 { return transfer / s.Median().Seconds() / 1e6 }
	for _, way := range []struct {
		what string
		took [2]bench.Samples
	}{{"to", ups}, {"from", downs}} {
		session, plain := rate(way.took[0]), rate(way.took[1])
		table.Add(fmt.Sprintf("throughput %s the machine, %d MiB: session; plain tunnel; medians of %d", way.what, transfer>>20, repeat),
			fmt.Sprintf("%.0f; %.0f MB/s: %.0f times less", session, plain, plain/session), "")
	}
	microseconds := func(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond)) }
	table.Add(fmt.Sprintf("round trip of 64 bytes, %d of them: session; plain tunnel: median, p99", roundTrips),
		fmt.Sprintf("%s, %s; %s, %s", microseconds(trips[0].Median()), microseconds(trips[0].Percentile(99)),
			microseconds(trips[1].Median()), microseconds(trips[1].Percentile(99))), "")
	table.Add(fmt.Sprintf("from dialing to the first byte back: session; plain tunnel; medians of %d", repeat),
		fmt.Sprintf("%s; %s", bench.Milliseconds(opens[0].Median()), bench.Milliseconds(opens[1].Median())), "")
}

// one does something on a connection of its own; the first byte says what.
func one(b *testing.B, dial func() (net.Conn, error), mode byte, do func(net.Conn) error) {
	b.Helper()
	c, err := dial()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte{mode}); err != nil {
		b.Fatal(err)
	}
	if err := do(c); err != nil {
		b.Fatal(err)
	}
}

func timed(into *bench.Samples, do func() error) error {
	began := time.Now()
	err := do()
	*into = append(*into, time.Since(began))
	return err
}

const piece = 32 << 10

// up sends, and waits until all has arrived.
func up(c net.Conn) error {
	data := make([]byte, piece)
	for range transfer / piece {
		if _, err := c.Write(data); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(c, data[:1])
	return err
}

func down(c net.Conn) error {
	_, err := io.CopyN(io.Discard, c, transfer)
	return err
}

func echo(c net.Conn, n int, into *bench.Samples) error {
	data := make([]byte, 64)
	for range n {
		began := time.Now()
		if _, err := c.Write(data); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, data); err != nil {
			return err
		}
		if into != nil {
			*into = append(*into, time.Since(began))
		}
	}
	return nil
}

// serve does what the first byte of a connection says.
func serve(c net.Conn) {
	mode := make([]byte, 1)
	if _, err := io.ReadFull(c, mode); err != nil {
		return
	}
	switch mode[0] {
	case 'u':
		if _, err := io.CopyN(io.Discard, c, transfer); err == nil {
			_, _ = c.Write(mode)
		}
	case 'd':
		data := make([]byte, piece)
		for range transfer / piece {
			if _, err := c.Write(data); err != nil {
				return
			}
		}
	default:
		_, _ = io.Copy(writerOnly{c}, readerOnly{c})
	}
}

// What copies goes through this process, as it does in a tunnel: not in the kernel
// from one connection to the other.
type (
	writerOnly struct{ io.Writer }
	readerOnly struct{ io.Reader }
)

// listen serves connections until the benchmark ends.
func listen(b *testing.B, handle func(net.Conn)) (address string) {
	b.Helper()
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = c.Close() }()
				defer context.AfterFunc(ctx, func() { _ = c.Close() })()
				handle(c)
			})
		}
	})
	b.Cleanup(func() {
		cancel()
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// sink is the port that all ways lead to.
func sink(b *testing.B) string {
	b.Helper()
	return listen(b, serve)
}

// plain is a proxy before it.
func plain(b *testing.B, port string) string {
	b.Helper()
	return listen(b, func(c net.Conn) {
		far, err := new(net.Dialer).DialContext(b.Context(), "tcp", port)
		if err != nil {
			return
		}
		var both sync.WaitGroup
		carry := func(to, from net.Conn) {
			_, _ = io.Copy(writerOnly{to}, readerOnly{from})
			_ = to.Close()
		}
		both.Go(func() { carry(far, c) })
		both.Go(func() { carry(c, far) })
		both.Wait()
	})
}

// session is a transport to it through the simulator's Session Manager.
func session(b *testing.B, port string) *provisioner.SSMTransport {
	b.Helper()
	cache, err := sim.CacheDir(func(key string) string {
		value, _ := os.LookupEnv(key)
		return value
	})
	if err != nil {
		b.Fatal(err)
	}
	account, err := simaws.Start(b.Context(), simaws.Config{LogDir: b.TempDir(), CacheDir: cache})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := account.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := account.RegisterKey(keyID, keySecret, "arn:aws:iam::"+account.ID()+":user/bench"); err != nil {
		b.Fatal(err)
	}
	err = account.Sessions().Register(sessionmanager.Machine{
		InstanceID: instance, Region: region,
		Dial: func(ctx context.Context, _ string, _ int) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", port)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	transport := &provisioner.SSMTransport{InstanceID: instance, Region: region, Config: &aws.Config{
		Region: region, BaseEndpoint: new(account.URL()), Credentials: credentials.NewStaticCredentialsProvider(keyID, keySecret, ""),
	}}
	b.Cleanup(func() {
		if err := transport.Close(); err != nil {
			b.Error(err)
		}
	})
	return transport
}
