package aws_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"golang.org/x/net/nettest"

	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/sim/aws/sessionmanager"
	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

// Session Manager's client in package provisioner and the fake here come of the
// same documents by different hands; each is the other's test.

// unreliable are mixtures of what may go wrong with frames.
func unreliable() map[string][]sessionmanager.Fault {
	every := func(kind sessionmanager.Kind, n int) sessionmanager.Fault {
		return sessionmanager.Fault{Kind: kind, Every: n, Seed: 7}
	}
	const cuts = 12_000 // frames; each costs a second
	acks := every(sessionmanager.KindLose, 200)
	acks.Type = frame.Acknowledge
	return map[string][]sessionmanager.Fault{
		"all is well": nil,
		"loss":        {every(sessionmanager.KindLose, 200)},
		"lost acknowledgements, disorder, repetition": {acks, every(sessionmanager.KindReorder, 100), every(sessionmanager.KindDuplicate, 50)},
		"cuts": {every(sessionmanager.KindCut, cuts), {Kind: sessionmanager.KindBye, Nth: 500}, {Kind: sessionmanager.KindRefuseResume}},
	}
}

// machines gives an instance's id and what is connected to on it.
func sessionMachine(t *testing.T, id string, faulty []sessionmanager.Fault) (*provisioner.SSMTransport, <-chan net.Conn) {
	t.Helper()
	account := theAccount(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	err = account.Sessions().Register(sessionmanager.Machine{
		InstanceID: id, Region: region,
		Dial: func(ctx context.Context, _ string, _ int) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faulty {
		f.Target = id
		added, err := account.Sessions().Faults().Add(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, state := range account.Sessions().Faults().List() {
				if state.ID == added && state.Fired == 0 {
					t.Errorf("nothing went wrong: %+v", state)
				}
			}
			account.Sessions().Faults().Remove(added)
		})
	}
	transport := &provisioner.SSMTransport{InstanceID: id, Region: region, Config: &aws.Config{
		Region: region, BaseEndpoint: new(account.URL()), Credentials: credentials.NewStaticCredentialsProvider(keyID, keySecret, ""),
	}}
	t.Cleanup(func() {
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
		account.Sessions().Deregister(id)
		_ = listener.Close()
		for c := range accepted {
			_ = c.Close()
		}
		var own []string
		for _, s := range account.Sessions().Sessions() {
			if s.Target == id {
				own = append(own, s.ID)
			}
		}
		for _, v := range account.Sessions().Violations() {
			if slices.Contains(own, v.Session) {
				t.Errorf("broken rule: %+v", v)
			}
		}
	})
	return transport, accepted
}

var nextSessionMachine atomic.Int64

func sessionMachineID() string { return fmt.Sprintf("i-%017x", nextSessionMachine.Add(1)) }

func TestSSMTransportIsAConnection(t *testing.T) {
	t.Parallel()
	for name, faulty := range unreliable() {
		if name == "cuts" {
			continue // the conformance test has no time for resumptions
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport, accepted := sessionMachine(t, sessionMachineID(), faulty)
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				near, err := transport.DialContext(t.Context())
				if err != nil {
					return nil, nil, nil, err
				}
				far := <-accepted
				return near, far, func() { _ = near.Close(); _ = far.Close() }, nil
			})
		})
	}
}

func TestSSMTransportKeepsEveryByte(t *testing.T) {
	t.Parallel()
	const size = 10 << 20 // an agent resends slowly: the long test is the client's own
	for name, faulty := range unreliable() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport, accepted := sessionMachine(t, sessionMachineID(), faulty)
			near, err := transport.DialContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = near.Close() }()
			far := <-accepted
			defer func() { _ = far.Close() }()
			sent, received := make(chan []byte, 2), make(chan []byte, 2)
			for i, way := range []struct{ from, to net.Conn }{{near, far}, {far, near}} {
				go func() {
					hash := sha256.New()
					source := rand.NewChaCha8([32]byte{byte(i)})
					_, err := io.CopyN(io.MultiWriter(way.from, hash), source, size)
					sent <- sum(t, hash.Sum(nil), err)
				}()
				go func() {
					hash := sha256.New()
					_, err := io.CopyN(hash, way.to, size)
					received <- sum(t, hash.Sum(nil), err)
				}()
			}
			var all [][]byte
			deadline := time.After(20 * time.Minute)
			for range 4 {
				select {
				case s := <-sent:
					all = append(all, s)
				case s := <-received:
					all = append(all, s)
				case <-deadline:
					t.Fatal("the bytes do not arrive")
				}
			}
			slices.SortFunc(all, bytes.Compare)
			if !bytes.Equal(all[0], all[1]) || !bytes.Equal(all[2], all[3]) || bytes.Equal(all[0], all[2]) {
				t.Errorf("what arrived is not what was sent: %x", all)
			}
		})
	}
}

func sum(t *testing.T, hash []byte, err error) []byte {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return hash
}
