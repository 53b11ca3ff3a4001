package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim/git"
	"github.com/kubeopera/platform/sim/gitops"
)

func twoControllers(t *testing.T, s *scaffolding, target *gitops.Target) {
	t.Helper()
	target.BreakControllerImage(true) // it must not open anything
	defer target.BreakControllerImage(false)
	if err := target.InstallSealedSecrets(t.Context(), gitops.Controller{
		Namespace: "second", Name: "sealed-secrets", Image: "registry.example.com/sealed-secrets:1",
	}); err != nil {
		t.Fatal(err)
	}
	s.fail(t, s.start(t, s.request()), string(runcontract.CodeSealedSecretsAmbiguous), "second/sealed-secrets", "leave one of them")
	err := target.Kubernetes().AppsV1().Deployments("second").Delete(t.Context(), "sealed-secrets", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// protectedBranch scaffolds another environment into a customer's repository with
// a long history, whose branch nobody may push to: with a credential of
// auth-service, then with a key of its own.
func protectedBranch(t *testing.T, s *scaffolding, _ *gitops.Target) {
	t.Helper()
	customer, err := platform.CreateRepository(t.Context(), "customer")
	if err != nil {
		t.Fatal(err)
	}
	// 100 MiB of history, of which no run may need more than the newest commit.
	if err := customer.Fill(t.Context(), git.Branch, 100, 1<<20, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := customer.AddTo(t.Context(), git.Branch, "begin", fstest.MapFS{"README.md": {Data: []byte("ours\n")}}); err != nil {
		t.Fatal(err)
	}
	if err := customer.Protect(t.Context(), git.Branch, git.GitHub); err != nil {
		t.Fatal(err)
	}
	other := &scaffolding{provision: s.provision, environment: "customer", domain: "customer.example.com", repository: customer, password: s.password}
	defer func() { s.runs = append(s.runs, other.runs...) }()
	request := other.request()
	request.Repository = &api.ScaffoldRepository{URL: customer.URL(), CredentialID: customer.Credential}
	other.fail(t, other.start(t, request), string(runcontract.CodePushRefused), "Changes must be made through a pull request", "use mode pull_request")

	public, private := sshKey(t)
	customer.Allow(git.Grant{Key: public})
	request.Mode = api.PushPullRequest
	request.Repository = &api.ScaffoldRepository{URL: customer.SSHURL(), SSHKey: private, KnownHosts: string(platform.Git.KnownHosts())}
	run := other.start(t, request)
	merged := false
	run = platform.WaitScaffold(t, run.ID, func(run api.Scaffold) {
		if run.PushedBranch == "" || merged {
			return
		}
		merged = true
		restart(t) // the run goes on meanwhile
		if _, err := customer.Merge(context.WithoutCancel(t.Context()), run.PushedBranch, git.Branch); err != nil {
			t.Error(err)
		}
	})
	if run.Status != api.StatusSucceeded || !merged || run.Commits == nil || run.Commits.Complete != other.branch(t) {
		t.Fatalf("the run ended %s (%s) with %+v: %s\n%s", run.Status, run.ErrorCode, run.Commits, run.Message, platform.ScaffoldLogs(t, run.ID))
	}
	files := other.files(t, other.branch(t))
	if files["README.md"] == nil || files["clusters/customer/flux-system/gotk-sync.yaml"] == nil {
		t.Errorf("the branch lacks what was there, or the tree: %d files", len(files))
	}
}

// restart kills gitops-scaffolder and starts it again.
func restart(t *testing.T) {
	t.Helper()
	platform.GitOpsScaffolder.Kill()
	if err := platform.GitOpsScaffolder.Start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// sshKey is a new key, the private half as OpenSSH writes it.
func sshKey(t *testing.T) (ssh.PublicKey, string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	private := string(pem.EncodeToMemory(block))
	platform.AddCanary("the SSH key of the customer's repository", strings.Split(private, "\n")[2]) // the first line is that of all keys
	return public, private
}

// newRSAKey is the private key of nobody.
func newRSAKey(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

// cancelAndRetry cancels a run whose push hangs.
func cancelAndRetry(t *testing.T, s *scaffolding, _ *gitops.Target) {
	t.Helper()
	before := s.branch(t)
	s.repository.Inject(git.Fault{Operation: git.Push, Do: git.Hang})
	defer s.repository.ClearFaults()
	s.domain = "acme.example.org"
	run := s.start(t, s.request())
	cancelled := false
	run = platform.WaitScaffold(t, run.ID, func(run api.Scaffold) {
		if cancelled || run.Phase != api.PhasePushComplete {
			return
		}
		cancelled = true
		if _, err := platform.Scaffolder(t).CancelScaffold(t.Context(), run.ID, false); err != nil {
			t.Error(err)
		}
	})
	if run.Status != api.StatusCancelled || s.branch(t) != before {
		t.Fatalf("the run ended %s (%s): %s; the branch is at %s, was at %s", run.Status, run.ErrorCode, run.Message, s.branch(t), before)
	}
	s.succeed(t, s.retry(t, run.ID))
	if s.branch(t) == before {
		t.Error("the retry has pushed nothing")
	}
}
