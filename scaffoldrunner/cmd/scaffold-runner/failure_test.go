package main

import (
	"context"
	"math/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kubeopera/platform/scaffoldrunner/platform"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

func TestRun_lost_races_are_run_again_on_the_new_head(t *testing.T) {
	t.Parallel()
	f := setup(t)
	first := f.git.commit(t, "main", map[string]string{"README.md": "ours"})
	f.git.beforePush = func(n int) {
		if n <= 2 {
			if _, err := f.git.tryCommit(context.WithoutCancel(t.Context()), "main", map[string]string{"race-" + string(rune('0'+n)): "won"}); err != nil {
				t.Error(err)
			}
		}
	}
	f.succeed()
	tree := f.git.tree(t)
	for _, file := range []string{"README.md", "race-1", "race-2", "clusters/acme/flux-system/gotk-sync.yaml"} {
		if tree[file] == nil {
			t.Errorf("%s is gone", file)
		}
	}
	f.git.git(t, nil, "merge-base", "--is-ancestor", first, "main")
}

func TestRun_gives_up_when_others_are_faster_every_time(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.git.commit(t, "main", map[string]string{"README.md": "ours"})
	f.git.beforePush = func(n int) {
		if _, err := f.git.tryCommit(context.WithoutCancel(t.Context()), "main", map[string]string{"race": string(rune('0' + n))}); err != nil {
			t.Error(err)
		}
	}
	f.fail(runcontract.CodePushRaced, "start the run again")
}

func TestRun_reports_a_refused_push_with_the_servers_words_once(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.git.commit(t, "main", map[string]string{"README.md": "ours"})
	f.git.hook(t, "pre-receive", "echo 'You are not allowed to push to protected branches. "+gitToken+"' >&2; exit 1\n")
	f.fail(runcontract.CodePushRefused, "You are not allowed to push to protected branches.", "pull_request")
	if n := f.git.pushed(); n != 1 {
		t.Errorf("%d pushes", n)
	}
}

func TestRun_ends_at_once_while_a_hook_hangs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.git.hook(t, "pre-receive", "exec sleep 20\n")
	c := f.start()
	c.until("== pushing")
	c.terminate()
	result := f.ended(c)
	f.failed(result, runcontract.CodeInterrupted, "interrupted (pushing the infrastructure layer)")
	if result.Outcome != runcontract.OutcomeCancelled {
		t.Errorf("outcome %s", result.Outcome)
	}
}

func TestRun_says_what_is_wrong_with_the_repository(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(f *fixture)
		code   runcontract.ErrorCode
		texts  []string
	}{
		{"a wrong token", func(f *fixture) {
			f.write("credential/"+runcontract.CredentialGitTokenFile, "canary-wrong-token")
		}, runcontract.CodeRepositoryAuth, []string{"check that it is valid"}},
		{"no such repository", func(f *fixture) {
			f.spec.Repository.URL = f.git.URL + "/other.git"
		}, runcontract.CodeRepositoryClone, []string{"check the URL"}},
		{"an unknown CA", func(f *fixture) { f.spec.Repository.CA = false }, runcontract.CodeRepositoryHostKey, []string{"CA"}},
		{"no such branch", func(f *fixture) {
			f.git.commit(f.t, "trunk", map[string]string{"a": "b"})
		}, runcontract.CodeBranchMissing, []string{"no branch main", "it has trunk", "create it"}},
		{"a link below apps", func(f *fixture) {
			blob := f.git.git(f.t, []byte("/etc/passwd"), "hash-object", "-w", "--stdin")
			tree := f.git.git(f.t, []byte("120000 blob "+blob+"\tlink"), "mktree")
			tree = f.git.git(f.t, []byte("040000 tree "+tree+"\tapps"), "mktree")
			f.git.git(f.t, nil, "update-ref", "refs/heads/main", f.git.git(f.t, nil, "commit-tree", "-m", "x", tree))
		}, runcontract.CodeGenerate, []string{"apps/link is a symbolic link"}},
		{"a service that the base does not have", func(f *fixture) {
			f.spec.Inputs.Services = map[string]api.ScaffoldService{"nope": {}}
		}, runcontract.CodeGenerate, []string{"services has one that the base does not have"}},
		{"a development tree that cannot be copied", func(f *fixture) {
			f.ownBase = true
			files := map[string]string{}
			for path, data := range platform.Tree() {
				files[path] = strings.ReplaceAll(string(data), "https://bitnami.github.io/sealed-secrets", "https://bitnami-labs.github.io/sealed-secrets")
			}
			f.git.commit(f.t, "main", files)
		}, runcontract.CodeTreeRefused, []string{"which has stopped answering", "clusters/acme"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			tt.change(f)
			f.fail(tt.code, tt.texts...)
			if n := f.git.pushed(); n != 0 {
				t.Errorf("%d pushes", n)
			}
		})
	}
}

func TestRun_reads_of_a_huge_repository_only_what_it_needs(t *testing.T) {
	t.Parallel()
	for name, filter := range map[string]string{"a server that gives parts": "true", "a server that does not": "false"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.git.git(t, nil, "config", "uploadpack.allowFilter", filter)
			const mebibyte = 1 << 20
			old := make([]byte, 12*mebibyte)
			rand.New(rand.NewSource(1)).Read(old)
			f.git.commit(t, "main", map[string]string{"history.bin": string(old)})
			f.git.commit(t, "main", map[string]string{"history.bin": "gone", "assets/big.bin": string(old[:4*mebibyte]), "apps/mine/base/a.yaml": "a: b\r\n"})
			f.succeed()
			limit := int64(mebibyte)
			if filter == "false" {
				limit = 10 * mebibyte // both passes bring the newest commit's files, and no history
			}
			if sent := f.git.sent.Load(); sent > limit {
				t.Errorf("%d bytes were fetched, of a repository with 16 MiB", sent)
			}
			if got := f.git.git(t, nil, "cat-file", "blob", "main:assets/big.bin"); len(got) < 3*mebibyte {
				t.Error("a file that was not fetched is damaged")
			}
		})
	}
}

func TestRun_keeps_line_endings_of_any_attribute(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.ownBase = true
	files := map[string]string{".gitattributes": "* text=auto eol=lf\n"}
	for path, data := range platform.Tree() {
		files[path] = strings.ReplaceAll(string(data), "\n", "\r\n")
	}
	f.git.commit(t, "main", files)
	f.succeed()
	for path, data := range f.git.tree(t) {
		if strings.HasSuffix(path, ".yaml") && !strings.Contains(path, "/sealed-secrets/") && strings.Count(string(data), "\r\n") < strings.Count(string(data), "\n") {
			t.Errorf("%s has lost its line endings", path)
		}
	}
	head := f.git.head(t)
	f.next()
	if f.succeed(); f.git.head(t) != head {
		t.Error("the same run again has changed something")
	}
}

func TestRun_shows_why_sealed_secrets_is_not_there(t *testing.T) {
	t.Parallel()
	never := func(f *fixture) {
		f.target.deployed = func() bool { return false }
		f.spec.SealedSecretsTimeoutSeconds = 3
	}
	tests := []struct {
		name   string
		change func(f *fixture)
		code   runcontract.ErrorCode
		texts  []string
	}{
		{"never Available", never, runcontract.CodeSealedSecretsMissing, []string{"not available within 3s", "its Deployment is not there yet"}},
		{"a release that fails", func(f *fixture) {
			never(f)
			f.target.flux["helmreleases"] = []object{release(object{"type": "Ready", "status": "False", "reason": "InstallFailed", "message": "no space"})}
			f.target.flux["helmrepositories"] = []object{{
				"kind": "HelmRepository", "metadata": object{"name": "sealed-secrets", "namespace": "flux-system"},
				"status": object{"conditions": []any{object{"type": "Ready", "status": "False", "reason": "FetchFailed", "message": "404 Not Found"}}},
			}}
		}, runcontract.CodeSealedSecretsMissing, []string{"HelmRelease sealed-secrets/sealed-secrets is not ready: InstallFailed: no space", "HelmRepository flux-system/sealed-secrets is not ready: FetchFailed: 404 Not Found"}},
		{"no Flux", func(f *fixture) { never(f); f.target.flux = nil }, runcontract.CodeFluxMissing, []string{"Flux is not on the target", "path clusters/acme"}},
		{"Flux for another folder", func(f *fixture) {
			never(f)
			f.target.flux = f.target.fluxOf("clusters/other")
		}, runcontract.CodeFluxMissing, []string{"nothing there applies clusters/acme"}},
		{"two controllers", func(f *fixture) {
			f.target.namespaces = []string{"kube-system", "sealed-secrets"}
		}, runcontract.CodeSealedSecretsAmbiguous, []string{"kube-system/sealed-secrets, sealed-secrets/sealed-secrets", "leave one"}},
		{"a kubeconfig that is refused", func(f *fixture) { f.target.token = "another" }, runcontract.CodeTargetUnreachable, []string{"refuses the kubeconfig"}},
		{"an expired certificate", func(f *fixture) { f.target.key = newSealingKey(-time.Hour) }, runcontract.CodeCertificate, []string{"expired on", "target.certificate"}},
		{"no way to the certificate", func(f *fixture) {
			f.target.proxy = func(w http.ResponseWriter) { f.target.status(w, http.StatusForbidden, "Forbidden") }
			f.target.key.pem = []byte("<html>")
		}, runcontract.CodeCertificate, []string{"services/proxy", "port-forward", "target.certificate"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			tt.change(f)
			f.fail(tt.code, tt.texts...)
		})
	}
}

func TestRun_stops_waiting_when_flux_has_given_up_on_the_commit(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.target.deployed = func() bool {
		commit, err := f.git.tryGit(context.WithoutCancel(t.Context()), nil, "rev-parse", "--verify", "--quiet", "main")
		if err == nil { // Flux has seen it
			f.target.flux["kustomizations"][1]["status"] = object{"lastAttemptedRevision": "main@sha1:" + commit}
		}
		return false
	}
	f.target.flux["helmreleases"] = []object{release(
		object{"type": "Stalled", "status": "True", "reason": "RetriesExceeded", "message": "gave up"},
		object{"type": "Ready", "status": "False", "reason": "InstallFailed", "message": "bad chart"},
	)}
	f.fail(runcontract.CodeFluxFailed, "bad chart", "start the run again")
}

func TestRun_gets_the_certificate_around_a_blocked_proxy(t *testing.T) {
	t.Parallel()
	blocked := func(f *fixture) {
		f.target.proxy = func(w http.ResponseWriter) { f.target.status(w, http.StatusServiceUnavailable, "ServiceUnavailable") }
	}
	t.Run("by port-forward", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		blocked(f)
		f.succeed()
		f.target.unseal(f.git)
	})
	t.Run("from the request", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		blocked(f)
		f.target.key.pem = []byte("<html>")
		f.spec.Target.Certificate = string(sharedKeys()[0].pem)
		f.succeed()
		f.target.unseal(f.git)
	})
}

func TestRun_ends_early_wherever_it_is_and_says_so(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.target.deployed = func() bool { return false }
	f.spec.TimeoutSeconds = 1
	f.fail(runcontract.CodeDeadlineExceeded, "deadline of 1 s", "goes on from what is pushed")

	f.next()
	f.spec.TimeoutSeconds = 280
	c := f.start()
	c.until("waiting: its Deployment is not there yet")
	c.terminate()
	f.failed(f.ended(c), runcontract.CodeInterrupted, "interrupted (waiting for sealed-secrets)", "its Deployment is not there yet")
}

func TestRun_waits_until_its_branch_is_merged(t *testing.T) {
	t.Parallel()
	proposing := func(t *testing.T) *fixture {
		t.Helper()
		f := setup(t)
		f.git.commit(t, "main", map[string]string{"README.md": "ours"})
		f.git.hook(t, "update", "case $1 in refs/heads/main) echo protected >&2; exit 1;; esac\n")
		f.spec.Repository.Mode, f.spec.Repository.MergeBranch, f.spec.MergeTimeoutSeconds = api.PushPullRequest, "scaffold/acme", 300
		return f
	}
	const waits = "waiting for branch scaffold/acme to be merged into main"
	t.Run("both passes, whoever else pushes", func(t *testing.T) {
		t.Parallel()
		f := proposing(t)
		c := f.start()
		c.until(waits)
		f.git.commit(t, "main", map[string]string{"else": "others"}) // no reason to push again
		f.merge(t)
		c.until("== pushing the whole environment")
		c.times(2, "to scaffold/acme\n")
		f.merge(t)
		result := f.ended(c)
		if result.Outcome != runcontract.OutcomeSucceeded || result.Scaffold.Commits.Complete != f.git.head(t) {
			t.Errorf("result %+v", result)
		}
		f.target.unseal(f.git)
		if n := f.git.pushed(); n != 2 {
			t.Errorf("%d pushes", n)
		}
	})
	t.Run("not merged, and taken up by the next run", func(t *testing.T) {
		t.Parallel()
		f := proposing(t)
		f.spec.MergeTimeoutSeconds = 3
		result := f.fail(runcontract.CodeNotMerged, "scaffold/acme was not merged into main within 3s", "merge it")
		if result.Scaffold == nil || result.Scaffold.PushedBranch != "scaffold/acme" {
			t.Errorf("output %+v", result.Scaffold)
		}
		f.next()
		f.fail(runcontract.CodeNotMerged)
		if n := f.git.pushed(); n != 1 {
			t.Errorf("%d pushes: what was proposed was proposed again", n)
		}
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		f := proposing(t)
		c := f.start()
		c.until(waits)
		f.git.git(t, nil, "update-ref", "-d", "refs/heads/scaffold/acme")
		f.failed(f.ended(c), runcontract.CodeNotMerged, "was deleted without having been merged")
	})
	t.Run("a branch with somebody's work", func(t *testing.T) {
		t.Parallel()
		f := proposing(t)
		f.git.commit(t, "scaffold/acme", map[string]string{"work": "somebody's"})
		f.fail(runcontract.CodePushRefused, "is left alone", "merge it or delete it")
	})
}

// merge merges the run's branch, as a server does.
func (f *fixture) merge(t *testing.T) {
	t.Helper()
	tree := f.git.git(t, nil, "merge-tree", "--write-tree", "--allow-unrelated-histories", "main", "scaffold/acme")
	commit := f.git.git(t, nil, "commit-tree", "-m", "Merge", "-p", "main", "-p", "scaffold/acme", tree)
	f.git.git(t, nil, "update-ref", "refs/heads/main", commit)
	f.git.git(t, nil, "update-ref", "-d", "refs/heads/scaffold/acme")
}
