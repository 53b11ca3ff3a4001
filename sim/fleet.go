package sim

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/sim/machine"
)

// Fleet are machines that somebody has already: they are of one network, have
// nothing but an SSH server, and let one key in.
type Fleet struct {
	Machines   []*machine.Existing
	Key        redact.Secret // the private key, in PEM form
	Credential string        // id of the key in AuthService
}

// LaunchFleet gives count machines, named prefix-0, prefix-1, ... They end with the
// simulator, or one by one by Terminate.
func (s *Simulator) LaunchFleet(ctx context.Context, prefix string, count int) (*Fleet, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	authorized, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	f := &Fleet{Machines: make([]*machine.Existing, count), Key: redact.Secret(pem.EncodeToMemory(block)), Credential: uuid.NewString()}
	s.AuthService.PutSSH(cloudcred.SSHCredential{ID: f.Credential, Name: prefix, PrivateKey: f.Key})
	group, launching := errgroup.WithContext(ctx)
	for i := range f.Machines {
		group.Go(func() (err error) {
			f.Machines[i], err = s.Machines.LaunchExisting(launching, machine.ExistingMachine{
				Name: fmt.Sprintf("%s-%d", prefix, i), Network: f.Credential, AuthorizedKeys: string(ssh.MarshalAuthorizedKey(authorized)),
			})
			return err
		})
	}
	return f, group.Wait()
}

// Direct is a machine as a request names it, reached at its own address.
func (f *Fleet) Direct(i int, role api.Role) api.Machine {
	m := f.Machines[i]
	return api.Machine{Role: role, User: m.User(), Address: m.Address(), Port: m.Port(), HostKey: m.HostKeys()[0], Transport: api.TransportDirect}
}

// ThroughSSM is a machine as a request names it, reached through Session Manager.
func (f *Fleet) ThroughSSM(i int, role api.Role) api.Machine {
	m := f.Machines[i]
	return api.Machine{Role: role, User: m.User(), HostKey: m.HostKeys()[0], Transport: api.TransportSSM, InstanceID: m.ID()}
}

// Region is where the machines are, as AWS sees it.
func (f *Fleet) Region() string { return f.Machines[0].Instance().Region }
