package httpapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/scaffolder/internal/launch"
	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runapi/runapitest"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	provisionID  = "0f8b7a52-2f3c-7b63-9a0e-0c1d2e3f4a5b"
	awsKeyID     = "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"
	gitTokenID   = "7d5b2a90-5a0e-4c55-8a4e-3f1f6a1f0c11"
	gitSSHKeyID  = "5f3c8d1e-93c0-4f5a-b6a9-5f2f4b6f1d22"
	unknownID    = "00000000-0000-7000-8000-000000000000"
	gracePeriod  = 2 * time.Minute
	runTimeout   = time.Hour
	mergeTimeout = 8 * time.Hour
	knownHosts   = "git.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJZtR1q3Zc5"
	sshKey       = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEICANARY=\n-----END EC PRIVATE KEY-----"
)

// canaries are secrets that must be in a run's credential Secret and nowhere else.
const (
	canaryToken    = "canary-token"
	canaryPassword = "canary-registry-password"
	canaryTarget   = "canary-target-token"
	canaryStored   = "canary-stored-token"
	canaryPlatform = "canary-platform-token"
	canaryAWS      = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	canaryDigest   = "canary-digest-secret-of-32-bytes-or-more"
)

// fakeCredentials is auth-service.
type fakeCredentials struct {
	fail error
	ends time.Time
}

func (f *fakeCredentials) Resolve(_ context.Context, id string) (cloudcred.Credential, error) {
	switch {
	case f.fail != nil:
		return cloudcred.Credential{}, f.fail
	case id != awsKeyID:
		return cloudcred.Credential{}, fmt.Errorf("credential: %w", cloudcred.ErrNotFound)
	}
	return cloudcred.Credential{ID: id, Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: canaryAWS, ExpiresAt: f.ends}}, nil
}

func (f *fakeCredentials) ResolveGit(_ context.Context, id string) (cloudcred.GitCredential, error) {
	switch {
	case f.fail != nil:
		return cloudcred.GitCredential{}, f.fail
	case id == gitTokenID:
		return cloudcred.GitCredential{ID: id, Kind: cloudcred.KindGitToken, Username: "robot", Token: canaryStored}, nil
	case id == gitSSHKeyID:
		return cloudcred.GitCredential{ID: id, Kind: cloudcred.KindGitSSHKey, PrivateKey: sshKey, KnownHosts: knownHosts}, nil
	case id == awsKeyID:
		return cloudcred.GitCredential{}, fmt.Errorf("credential: %w", cloudcred.ErrUnsupported)
	}
	return cloudcred.GitCredential{}, fmt.Errorf("credential: %w", cloudcred.ErrNotFound)
}

// fakeClusters is cluster-provisioner, with one run.
type fakeClusters struct {
	cluster scaffold.Cluster
	fail    error
}

func (f *fakeClusters) Cluster(_ context.Context, id string) (scaffold.Cluster, error) {
	switch {
	case f.fail != nil:
		return scaffold.Cluster{}, f.fail
	case id != provisionID:
		return scaffold.Cluster{}, scaffold.ErrProvisionNotFound
	}
	return f.cluster, nil
}

// fakePlatform has a repository of its own.
type fakePlatform struct{ secrets scaffold.PlatformSecrets }

func (f *fakePlatform) Secrets() (scaffold.PlatformSecrets, error) { return f.secrets, nil }

// world is the API over the real engine, with everything beyond in memory.
type world struct {
	runapitest.API
	runapitest.World
	credentials *fakeCredentials
	clusters    *fakeClusters
	platform    *fakePlatform
	repository  *scaffold.Repository
}

func newWorld(tb testing.TB, store runs.Store, interval time.Duration) world {
	tb.Helper()
	w := world{
		World: runapitest.NewWorld(tb, runs.Config{
			Kind: runcontract.KindScaffold, Store: store,
			Render: launch.Renderer(launch.Config{
				Namespace: "kubeopera-provisioning", ManagedBy: "gitops-scaffolder", AuthorName: "KubeOpera", AuthorEmail: "x@kubeopera.invalid",
				Timeout: runTimeout, MergeTimeout: mergeTimeout, GracePeriod: gracePeriod, StartDeadline: 10 * time.Minute,
				SealedSecretsTimeout: 20 * time.Minute, PollInterval: 5 * time.Second,
			}),
			MaxConcurrent: 3, GracePeriod: gracePeriod, SweepInterval: interval,
		}),
		credentials: &fakeCredentials{},
		clusters:    &fakeClusters{cluster: scaffold.Cluster{Kubeconfig: kubeconfigOf(tb, "token: "+canaryTarget), CredentialID: awsKeyID}},
		platform:    &fakePlatform{scaffold.PlatformSecrets{Token: canaryPlatform, DigestSecret: canaryDigest}},
		repository: &scaffold.Repository{
			URL: "https://git.example.com/platform/gitops.git", Branch: "main", Platform: true, Auth: runcontract.RepositoryAuthToken, Username: "git",
		},
	}
	w.API = w.serve(tb)
	return w
}

// serve makes another API over the same engine, by what the world is now.
func (w world) serve(tb testing.TB) runapitest.API {
	tb.Helper()
	service, err := scaffold.New(scaffold.Config{
		Runs: w.Engine, Credentials: w.credentials, GitCredentials: w.credentials, Clusters: w.clusters, Platform: w.platform,
		Repository: w.repository, Services: []string{"gateway", "web-console"},
		RunTimeout: runTimeout, MergeTimeout: mergeTimeout,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return runapitest.Serve(tb, func(cfg edge.Config) (*edge.API, error) { return New(service, cfg) })
}

// setup is a world whose time does not matter.
func setup(tb testing.TB) world {
	tb.Helper()
	return newWorld(tb, runstest.NewStore(), runapitest.Sweep)
}

// spec is the run spec that a run's Job was given.
func (w world) spec(tb testing.TB, id string) runcontract.ScaffoldSpec {
	tb.Helper()
	runapitest.Pass(2 * runapitest.Sweep)
	spec, err := runcontract.ReadScaffoldSpec([]byte(w.Cluster.Files(runs.ID(id))[runcontract.SpecFile]))
	if err != nil {
		tb.Fatal(err)
	}
	return spec
}

func (w world) post(tb testing.TB, body string) api.Scaffold {
	tb.Helper()
	return runapitest.Post[api.Scaffold](tb, w.API, "/scaffolds", body, nil)
}

// kubeconfigOf is one whose user is the YAML given, of a flow mapping.
func kubeconfigOf(tb testing.TB, user string) []byte {
	tb.Helper()
	return []byte("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n" +
		"clusters: [{name: a, cluster: {server: 'https://192.0.2.1:6443', certificate-authority-data: " + certificate(tb) + "}}]\n" +
		"users: [{name: a, user: {" + user + "}}]\n")
}

// certificate is one in PEM, in base64.
func certificate(tb testing.TB) string {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
