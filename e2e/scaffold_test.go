package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/git"
	"github.com/kubeopera/platform/sim/gitops"
)

// fluxPatience is how long Flux may take to apply a commit on a busy machine.
const fluxPatience = 3 * time.Minute

// TestScaffoldEKS goes from an EKS cluster to the applied tree, and through all
// that may happen to an environment later. Its steps build on each other.
func TestScaffoldEKS(t *testing.T) {
	t.Parallel() // with the topologies that mostly wait
	cluster := platform.Start(t, platform.Request("gitops"))
	s := &scaffolding{provision: cluster.ID, environment: "acme", domain: "acme.example.com", repository: platform.Trees, password: canary("registry")}
	_, err := platform.Scaffolder(t).StartScaffold(t.Context(), s.request())
	harness.WantProblem(t, err, http.StatusConflict, "provision_not_ready")
	if cluster = platform.Wait(t, cluster.ID, nil); cluster.Status != api.StatusSucceeded {
		t.Fatalf("the cluster's run ended %s (%s): %s", cluster.Status, cluster.ErrorCode, cluster.Message)
	}
	target, err := platform.GitOps(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.order = watchOrder(t)
	for _, step := range []struct {
		name string
		do   func(*testing.T, *scaffolding, *gitops.Target)
	}{
		{"a dry run shows the tree and pushes nothing", dryRun},
		{"why sealed-secrets is not there shows at once, and a killed run is taken up by its retry", firstScaffold},
		{"Flux applies the tree in the order of its dependencies", reconciled},
		{"every Secret matches what it is for", secretsMatch},
		{"what is sealed opens with this cluster's key only", sealedForThisCluster},
		{"the same request again makes no commit, though the service proxy is blocked", scaffoldAgain},
		{"another domain changes what depends on it, and a lost race nothing", changeDomain},
		{"rotate_secrets rotates", rotate},
		{"two controllers are refused", twoControllers},
		{"a protected branch is refused, and waits for a merge over SSH", protectedBranch},
		{"a cancelled run is retried", cancelAndRetry},
		{"no secret is in what the runs left behind", scaffoldLeaks},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(t, s, target) }) {
			t.FailNow()
		}
	}
}

// scaffolding is an environment, and what its steps know of it.
type scaffolding struct {
	provision, environment, domain string
	repository                     *sim.Repository
	password                       string // at the registry
	runs                           []string
	order                          *applyOrder
	opened                         map[string]map[string]string
}

// canary is a secret of the tests' own.
func canary(what string) string {
	secret := "canary-" + rand.Text()
	platform.AddCanary("the tests' "+what+" password", secret)
	return secret
}

func (s *scaffolding) request() api.ScaffoldRequest {
	return api.ScaffoldRequest{
		Environment: s.environment, Domain: s.domain, Region: "eu-west-1", Email: "ops@" + s.domain,
		Target:   api.ScaffoldTarget{ProvisionID: s.provision},
		Registry: api.ScaffoldRegistry{Server: "registry.acme.example.com", Username: "robot", Password: s.password},
	}
}

// start starts a run with a request.
func (s *scaffolding) start(t *testing.T, request api.ScaffoldRequest) api.Scaffold {
	t.Helper()
	run := platform.StartScaffold(t, request)
	s.runs = append(s.runs, run.ID)
	return run
}

// retry retries a run with what its request held in clear.
func (s *scaffolding) retry(t *testing.T, id string) api.Scaffold {
	t.Helper()
	_, err := platform.Scaffolder(t).RetryScaffold(t.Context(), id, api.ScaffoldSecrets{})
	harness.WantProblem(t, err, http.StatusConflict, "secrets_required")
	run, err := platform.Scaffolder(t).RetryScaffold(t.Context(), id, api.ScaffoldSecrets{RegistryPassword: s.password})
	if err != nil {
		t.Fatal(err)
	}
	s.runs = append(s.runs, run.ID)
	return run
}

// succeed follows a run to its end, which must be a good one.
func (s *scaffolding) succeed(t *testing.T, run api.Scaffold) api.Scaffold {
	t.Helper()
	run = platform.WaitScaffold(t, run.ID, nil)
	if run.Status != api.StatusSucceeded {
		t.Fatalf("the run ended %s (%s): %s\n%s", run.Status, run.ErrorCode, run.Message, platform.ScaffoldLogs(t, run.ID))
	}
	return run
}

// fail follows a run to its end, which must be a failure whose message has all
// texts.
func (s *scaffolding) fail(t *testing.T, run api.Scaffold, code string, texts ...string) {
	t.Helper()
	run = platform.WaitScaffold(t, run.ID, nil)
	if run.Status != api.StatusFailed || run.ErrorCode != code {
		t.Fatalf("the run ended %s (%s), want %s: %s\n%s", run.Status, run.ErrorCode, code, run.Message, platform.ScaffoldLogs(t, run.ID))
	}
	for _, text := range texts {
		if !strings.Contains(run.Message, text) {
			t.Errorf("the message lacks %q: %s", text, run.Message)
		}
	}
}

// branch is the newest commit of main; empty if there is none.
func (s *scaffolding) branch(t *testing.T) string {
	t.Helper()
	branches, err := s.repository.Branches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return branches[git.Branch]
}

// files are those of a commit.
func (s *scaffolding) files(t *testing.T, commit string) map[string][]byte {
	t.Helper()
	files, err := s.repository.Files(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// changed are the paths of what differs between two commits.
func (s *scaffolding) changed(t *testing.T, from, to string) []string {
	t.Helper()
	before, after := s.files(t, from), s.files(t, to)
	both := maps.Clone(before)
	maps.Copy(both, after)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(both)), func(path string) bool {
		return before[path] != nil && after[path] != nil && string(before[path]) == string(after[path])
	})
}

// layers are the environment's, in an order in which they may be applied.
var layers = []string{"infrastructure", "database", "cert-manager-config", "apps"}

// applied waits until Flux has applied the newest commit.
func (s *scaffolding) applied(t *testing.T, target *gitops.Target) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fluxPatience)
	defer cancel()
	for _, layer := range layers {
		if err := target.Await(ctx, layer, git.Branch, s.branch(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func dryRun(t *testing.T, s *scaffolding, _ *gitops.Target) {
	t.Helper()
	request := s.request()
	request.DryRun = true
	run := s.succeed(t, s.start(t, request))
	diff, err := platform.Scaffolder(t).Diff(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"+++ b/clusters/acme/flux-system/gotk-sync.yaml", "encryptedData", "acme.example.com"} {
		if !strings.Contains(string(diff), text) {
			t.Errorf("the diff lacks %q", text)
		}
	}
	if run.Commits != nil || s.branch(t) != "" {
		t.Errorf("a dry run has pushed: %+v, branch at %q", run.Commits, s.branch(t))
	}
}

// firstScaffold makes the environment in an empty repository: while a release
// fails that sealed-secrets comes with, and with a runner that is killed.
func firstScaffold(t *testing.T, s *scaffolding, target *gitops.Target) {
	t.Helper()
	target.FailRelease("sealed-secrets", "sealed-secrets", gitops.ReleaseFault{Message: "no space left on device"})
	run := s.start(t, s.request())
	killed := false
	run = platform.WaitScaffold(t, run.ID, func(run api.Scaffold) {
		if !killed && run.Phase == api.PhaseWaitingForSealedSecrets && strings.Contains(run.Message, "no space left on device") {
			killed = true
			platform.Kill(t, run.ID, harness.ScaffoldRunner)
		}
	})
	if !killed || run.Status != api.StatusFailed || run.Commits == nil || run.Commits.Infrastructure != s.branch(t) {
		t.Fatalf("the run ended %s (%s) with %+v: %s", run.Status, run.ErrorCode, run.Commits, run.Message)
	}
	infrastructure := s.branch(t)
	target.RestoreRelease("sealed-secrets", "sealed-secrets")
	run = s.succeed(t, s.retry(t, run.ID))
	if run.Commits == nil || run.Commits.Complete != s.branch(t) || run.GitOpsPath != "clusters/acme" || len(run.CertificateFingerprint) != 64 {
		t.Errorf("output %+v, commits %+v, branch at %s", run.ScaffoldOutput, run.Commits, s.branch(t))
	}
	commits, err := s.repository.Commits(t.Context(), git.Branch)
	if err != nil {
		t.Fatal(err)
	}
	if len(commits) != 2 || commits[1].ID != infrastructure || !strings.Contains(commits[0].Message, "Scaffold-Run: "+run.ID) {
		t.Errorf("commits %+v, want the killed run's and the retry's", commits)
	}
}

func reconciled(t *testing.T, s *scaffolding, target *gitops.Target) {
	t.Helper()
	s.applied(t, target)
	s.order.check(t, s.branch(t))
	state, err := target.Release(t.Context(), "sealed-secrets", "sealed-secrets")
	if err != nil || !state.Ready {
		t.Errorf("the release of sealed-secrets is %+v, %v", state, err)
	}
}

func scaffoldAgain(t *testing.T, s *scaffolding, target *gitops.Target) {
	t.Helper()
	target.Pods().Block(500 * time.Millisecond)
	defer target.Pods().Unblock()
	before := s.branch(t)
	run := s.succeed(t, s.start(t, s.request()))
	if s.branch(t) != before || run.Commits == nil || run.Commits.Complete != before || run.Commits.Infrastructure != "" {
		t.Errorf("the branch went from %s to %s; the run says %+v", before, s.branch(t), run.Commits)
	}
	if log := platform.ScaffoldLogs(t, run.ID); !strings.Contains(log, "certificate by the service proxy, attempt 3 of 3") {
		t.Errorf("the log does not tell that the service proxy was blocked:\n%s", log)
	}
}

func changeDomain(t *testing.T, s *scaffolding, target *gitops.Target) {
	t.Helper()
	before := s.branch(t)
	s.domain = "acme.example.net"
	s.repository.Inject(git.Fault{Operation: git.Push, Do: git.Land(git.Branch, fstest.MapFS{"README.md": {Data: []byte("ours\n")}})})
	s.succeed(t, s.start(t, s.request()))
	changed := s.changed(t, before, s.branch(t))
	if len(changed) < 2 || !slices.Contains(changed, "README.md") {
		t.Fatalf("%v have changed, want what another one's push has brought, too", changed)
	}
	for _, file := range changed {
		if file == "README.md" {
			continue
		}
		text := string(s.files(t, s.branch(t))[file])
		if !strings.Contains(text, "acme.example.net") || strings.Contains(text, "acme.example.com") && !strings.Contains(text, "registry.acme.example.com") {
			t.Errorf("%s has changed, and is not about the domain:\n%s", file, text)
		}
	}
	var left []string
	for file, data := range s.files(t, s.branch(t)) {
		if strings.Contains(strings.ReplaceAll(string(data), "registry.acme.example.com", ""), "acme.example.com") {
			left = append(left, file)
		}
	}
	if len(left) > 0 {
		t.Errorf("the old domain is left in %v", left)
	}
	s.applied(t, target)
	ingresses, err := target.Kubernetes().NetworkingV1().Ingresses("kubeopera-core").List(t.Context(), listAll)
	if err != nil || len(ingresses.Items) == 0 {
		t.Fatalf("%d Ingresses, %v", len(ingresses.Items), err)
	}
	for _, ingress := range ingresses.Items {
		if host := ingress.Spec.Rules[0].Host; !strings.HasSuffix(host, ".acme.example.net") && host != "acme.example.net" {
			t.Errorf("Ingress %s has the host %s", ingress.Name, host)
		}
	}
	if diff := cmp.Diff(s.opened, s.open(t)); diff != "" {
		t.Errorf("Secrets have changed with the domain (-before +after):\n%s", diff)
	}
}

func rotate(t *testing.T, s *scaffolding, target *gitops.Target) {
	t.Helper()
	before := s.branch(t)
	request := s.request()
	request.RotateSecrets = true
	s.succeed(t, s.start(t, request))
	rotated := s.branch(t)
	if s.succeed(t, s.start(t, s.request())); s.branch(t) != rotated { // the cluster may still have the old passwords
		t.Errorf("the next run has changed %v", s.changed(t, rotated, s.branch(t)))
	}
	for _, file := range s.changed(t, before, rotated) {
		if path.Base(path.Dir(file)) != "sealed-secrets" {
			t.Errorf("the rotation has changed %s", file)
		}
	}
	s.applied(t, target)
	harness.Until(t, "every Secret has another password", func() (bool, error) {
		for name, values := range s.open(t) {
			for key, value := range values {
				if key != "username" && key != ".dockerconfigjson" && value == s.opened[name][key] {
					return false, fmt.Errorf("%s of %s is as before", key, name)
				}
			}
		}
		return true, nil
	})
	s.checkSecrets(t, target)
}
