package provisioner_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote/sshtest"
	"github.com/kubeopera/platform/shared/redact"
)

// The exported names of the API that this package is compatible with, each with
// its type.
var (
	_ string = provisioner.Shebang

	_ func(v1alpha1.Environment) *v1alpha1.ComponentsStatus                                                    = provisioner.BuildComponentsStatus
	_ func(*logger.FunLogger, v1alpha1.Environment) error                                                      = provisioner.Dryrun
	_ func(*logger.FunLogger, *v1alpha1.Environment) (*provisioner.ClusterHealth, error)                       = provisioner.GetClusterHealthFromEnv
	_ func(*logger.FunLogger, string, string, *v1alpha1.Environment) *provisioner.ClusterProvisioner           = provisioner.NewClusterProvisioner
	_ func(*provisioner.ClusterProvisioner, string) (*provisioner.ClusterHealth, error)                        = (*provisioner.ClusterProvisioner).GetClusterHealth
	_ func(*provisioner.ClusterProvisioner, []provisioner.NodeInfo) error                                      = (*provisioner.ClusterProvisioner).ProvisionCluster
	_ func(*v1alpha1.Environment) *provisioner.DependencyResolver                                              = provisioner.NewDependencies
	_ func(*provisioner.DependencyResolver) []provisioner.ProvisionFunc                                        = (*provisioner.DependencyResolver).Resolve
	_ func(*provisioner.DependencyResolver, string)                                                            = (*provisioner.DependencyResolver).SetBaseDir
	_ func(string) *provisioner.DirectTransport                                                                = provisioner.NewDirectTransport
	_ func(provisioner.Transport) provisioner.Option                                                           = provisioner.WithTransport
	_ func(*logger.FunLogger, string, string, string, ...provisioner.Option) (*provisioner.Provisioner, error) = provisioner.New
	_ func(*provisioner.Provisioner, v1alpha1.Environment) (*v1alpha1.ComponentsStatus, error)                 = (*provisioner.Provisioner).Run

	_ provisioner.DependencyConfigurator = (*provisioner.DependencyResolver)(nil)
	_ provisioner.Transport              = (*provisioner.DirectTransport)(nil)
	_ provisioner.Transport              = (*provisioner.SSMTransport)(nil)

	_ provisioner.ProvisionFunc = func(*bytes.Buffer, v1alpha1.Environment) error { return nil }
	_ provisioner.Option        = func(*provisioner.Provisioner) {}
)

// transport is one of a user's own: three methods are enough.
type transport struct{}

func (transport) Dial() (net.Conn, error) { return nil, errors.New("no way") }
func (transport) Target() string          { return "my-machine" }
func (transport) Close() error            { return nil }

func TestExportedStructs(t *testing.T) {
	t.Parallel()
	_ = provisioner.ClusterHealth{
		Healthy: true, TotalNodes: 1, ReadyNodes: 1, ControlPlanes: 1, Workers: 0, APIServerStatus: "Running",
		Nodes: []provisioner.NodeHealth{{Name: "n", Role: "worker", Ready: true, Status: "Ready", Version: "v1", InternalIP: "10.0.0.1"}}, Message: "m",
	}
	_ = provisioner.ClusterProvisioner{
		KeyPath: "k", UserName: "u", Environment: &v1alpha1.Environment{}, JoinToken: "t", CertificateKey: "c", ControlPlaneEndpoint: "e", CACertHash: "h",
	}
	_ = provisioner.DependencyResolver{Dependencies: []provisioner.ProvisionFunc{}}
	_ = provisioner.NodeInfo{
		Name: "n", PublicIP: "198.51.100.1", PrivateIP: "10.0.0.1", Role: "worker", SSHUsername: "u", InstanceID: "i-1", Transport: transport{},
	}
	_ = provisioner.Provisioner{Client: &ssh.Client{}, SessionManager: &ssm.Client{}, HostUrl: "h", UserName: "u", KeyPath: "k"}
	_ = provisioner.SSMTransport{InstanceID: "i-1", Region: "eu-west-1", Profile: "p"}
	if want := "#! /usr/bin/env bash\nset -xe\n"; provisioner.Shebang != want {
		t.Errorf("Shebang = %q, want %q", provisioner.Shebang, want)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	server := sshtest.Start(t, sshtest.Options{})
	key := provisioner.WithConnection(provisioner.Connection{KnownHostsFile: filepath.Join(t.TempDir(), "known_hosts"), MaxRetries: 1})
	pinned := provisioner.WithHostKeys(string(ssh.MarshalAuthorizedKey(server.HostKey)))
	for _, test := range []struct {
		name    string
		keyPath string
		options []provisioner.Option
		check   func(error) bool
	}{
		{"first host key", server.KeyFile, []provisioner.Option{key}, func(err error) bool { return err == nil }},
		{"pinned host key", server.KeyFile, []provisioner.Option{key, pinned}, func(err error) bool { return err == nil }},
		{"another host key", server.KeyFile, []provisioner.Option{key, provisioner.WithHostKeys(string(ssh.MarshalAuthorizedKey(sshtest.NewSigner(t).PublicKey())))}, is[*provisioner.HostKeyError]},
		{"no such known host", server.KeyFile, []provisioner.Option{provisioner.WithConnection(provisioner.Connection{
			KnownHostsFile: filepath.Join(t.TempDir(), "none"), HostKeyPolicy: v1alpha1.KnownHostsStrict,
		})}, is[*provisioner.HostKeyError]},
		{"another key", "", []provisioner.Option{pinned, provisioner.WithConnection(provisioner.Connection{Key: newKey(t)})}, is[*provisioner.AuthError]},
		{"through a bastion", server.KeyFile, []provisioner.Option{pinned, provisioner.WithConnection(provisioner.Connection{
			Bastion: &provisioner.Bastion{Host: server.Addr, HostKeys: []string{string(ssh.MarshalAuthorizedKey(server.HostKey))}},
		})}, func(err error) bool { return err == nil }},
		{"no connection", server.KeyFile, []provisioner.Option{key, provisioner.WithTransport(transport{})}, is[*provisioner.UnreachableError]},
		{"no key", "/does/not/exist", []provisioner.Option{key}, func(err error) bool { return err != nil }},
		{"a host key that is none", server.KeyFile, []provisioner.Option{provisioner.WithHostKeys("nonsense")}, func(err error) bool { return err != nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			p, err := provisioner.NewContext(ctx, nil, test.keyPath, "ubuntu", server.Addr, test.options...)
			if !test.check(err) {
				t.Errorf("NewContext: %v", err)
			}
			if err != nil {
				return
			}
			if p.Client == nil || p.UserName != "ubuntu" || p.HostUrl != server.Addr {
				t.Errorf("provisioner %+v", p)
			}
			if err := p.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// is says that an error is of a type.
func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

func TestBuildComponentsStatus(t *testing.T) {
	t.Parallel()
	var env v1alpha1.Environment
	if got := provisioner.BuildComponentsStatus(env); got != nil {
		t.Errorf("status of nothing: %+v, want nil", got)
	}
	s := &env.Spec
	s.NVIDIADriver = v1alpha1.NVIDIADriver{Install: true, Source: v1alpha1.DriverSourceGit, Git: &v1alpha1.DriverGitSpec{Repo: "https://example.com/d.git", Ref: "580.1"}}
	s.ContainerRuntime = v1alpha1.ContainerRuntime{Install: true, Name: "docker", Package: &v1alpha1.RuntimePackageSpec{Version: "5:28.0.1"}}
	s.NVIDIAContainerToolkit = v1alpha1.NVIDIAContainerToolkit{Install: true, Source: v1alpha1.CTKSourceLatest, Latest: &v1alpha1.CTKLatestSpec{Repo: "https://example.com/t.git", Track: "main"}}
	s.Kubernetes = v1alpha1.Kubernetes{Install: true}
	want := &v1alpha1.ComponentsStatus{
		Driver:     &v1alpha1.ComponentProvenance{Source: "git", Repo: "https://example.com/d.git", Ref: "580.1"},
		Runtime:    &v1alpha1.ComponentProvenance{Source: "package", Version: "5:28.0.1"},
		Toolkit:    &v1alpha1.ComponentProvenance{Source: "latest", Repo: "https://example.com/t.git", Branch: "main"},
		Kubernetes: &v1alpha1.ComponentProvenance{Source: "release", Version: v1alpha1.DefaultKubernetesVersion},
	}
	if diff := cmp.Diff(want, provisioner.BuildComponentsStatus(env)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// newKey is a private key in OpenSSH's form.
func newKey(t *testing.T) redact.Secret {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return redact.Secret(pem.EncodeToMemory(block))
}
