package httpapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/runapi"
	"github.com/kubeopera/platform/shared/runapi/runapitest"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

// request is the smallest request with changes.
func request(change func(*api.ScaffoldRequest)) string {
	r := api.ScaffoldRequest{
		Environment: "acme-prod", Domain: "acme.example.com", Region: "eu-west-1", Email: "ops@acme.example.com",
		Repository: &api.ScaffoldRepository{URL: "https://git.example.com/acme/gitops.git", Token: canaryToken},
		Target:     api.ScaffoldTarget{ProvisionID: provisionID},
		Registry:   api.ScaffoldRegistry{Server: "registry.example.com", Username: "robot", Password: canaryPassword},
	}
	if change != nil {
		change(&r)
	}
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and booleans do not fail
	}
	return string(body)
}

var success = runcontract.Result{
	Outcome: runcontract.OutcomeSucceeded, Phase: api.PhaseDone,
	Scaffold: &api.ScaffoldOutput{
		GitOpsPath: "clusters/acme-prod", CertificateFingerprint: "ab12",
		Commits: &api.ScaffoldCommits{Infrastructure: "1111", Complete: "2222"},
	},
}

var failure = runcontract.Result{Outcome: runcontract.OutcomeFailed, Phase: api.PhasePushComplete, ErrorCode: runcontract.CodePushRefused, Message: "the branch is protected"}

func TestARunFromRequestToTree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), runapitest.Sweep)
		run := w.post(t, request(func(r *api.ScaffoldRequest) {
			r.Services = map[string]api.ScaffoldService{"gateway": {Hostname: "X.acme.example.com."}}
		}))
		want := api.Scaffold{
			ID: run.ID, Environment: "acme-prod", Domain: "acme.example.com", Region: "eu-west-1", Email: "ops@acme.example.com",
			RepositoryURL: "https://git.example.com/acme/gitops.git", Branch: "main", ProvisionID: provisionID, Server: "https://192.0.2.1:6443",
			Services:       map[string]api.ScaffoldService{"gateway": {Hostname: "x.acme.example.com"}},
			RegistryServer: "registry.example.com", RegistryUsername: "robot", Mode: api.PushDirect, RequestedBy: "tester", RunStatus: run.RunStatus,
		}
		if diff := cmp.Diff(want, run); diff != "" {
			t.Errorf("the new run (-want +got):\n%s", diff)
		}
		spec, err := json.MarshalIndent(w.spec(t, run.ID), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, "run.json", append(bytes.ReplaceAll(spec, []byte(run.ID), []byte("ID")), '\n'))

		w.Begin(t, run.ID)
		w.Cluster.Publish(runs.ID(run.ID), runcontract.KeyProgress, runcontract.Progress{
			Phase: api.PhaseWaitingForSealedSecrets, Done: 3, Total: 7, Message: "sealed-secrets: image is being pulled",
			Scaffold: &api.ScaffoldOutput{GitOpsPath: "clusters/acme-prod", Commits: &api.ScaffoldCommits{Infrastructure: "1111"}},
		})
		runapitest.Pass(2 * runapitest.Sweep)
		now := runapitest.Decode[api.Scaffold](t, w.Do(http.MethodGet, "/api/v1/scaffolds/"+run.ID, "", nil))
		if now.Phase != api.PhaseWaitingForSealedSecrets || now.Commits == nil || now.Commits.Infrastructure != "1111" || now.Progress.Done != 3 || !strings.Contains(now.Message, "pulled") {
			t.Errorf("while it waits: %+v", now)
		}
		w.Finish(t, run.ID, success)
		end := runapitest.Decode[api.Scaffold](t, w.Do(http.MethodGet, "/api/v1/scaffolds/"+run.ID, "", nil))
		if diff := cmp.Diff(*success.Scaffold, end.ScaffoldOutput); diff != "" || end.Status != api.StatusSucceeded {
			t.Errorf("status %s, output (-want +got):\n%s", end.Status, diff)
		}
		if files := w.Cluster.Credential(runs.ID(run.ID)); len(files) > 0 {
			t.Error("the credential outlives its run")
		}
	})
}

// TestSecretsAreInTheCredentialOnly: for every way to bring them.
func TestSecretsAreInTheCredentialOnly(t *testing.T) {
	t.Parallel()
	exec := func(env string) string {
		return "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws, args: [--region, eu-west-1, eks, get-token, --cluster-name, acme, --output, json]" + env + "}"
	}
	embedded := exec(", env: [{name: AWS_ACCESS_KEY_ID, value: AKIAIOSFODNN7EXAMPLE}, {name: AWS_SECRET_ACCESS_KEY, value: " + canaryAWS + "}]")
	withKey, withoutKey := string(kubeconfigOf(t, embedded)), string(kubeconfigOf(t, exec("")))
	always := []string{runcontract.CredentialDigestKeyFile, runcontract.CredentialKubeconfigFile, runcontract.CredentialRegistryPasswordFile}
	aws := []string{runcontract.CredentialConfigFile, runcontract.CredentialKeysFile}
	cases := []struct {
		name   string
		given  func(*world)
		change func(*api.ScaffoldRequest)
		files  []string // beside always
		holds  map[string]string
		check  func(runcontract.ScaffoldSpec) bool
	}{
		{
			name: "a token and a provisioned cluster", files: []string{runcontract.CredentialGitTokenFile},
			holds: map[string]string{runcontract.CredentialGitTokenFile: canaryToken, runcontract.CredentialRegistryPasswordFile: canaryPassword, runcontract.CredentialKubeconfigFile: canaryTarget},
		},
		{
			name: "an SSH key",
			change: func(r *api.ScaffoldRequest) {
				r.Repository = &api.ScaffoldRepository{URL: "git@git.example.com:acme/gitops.git", SSHKey: sshKey, KnownHosts: knownHosts}
			},
			files: []string{runcontract.CredentialSSHKeyFile, runcontract.CredentialKnownHostsFile},
			holds: map[string]string{runcontract.CredentialSSHKeyFile: "CANARY", runcontract.CredentialKnownHostsFile: knownHosts + "\n"},
		},
		{
			name: "a stored token",
			change: func(r *api.ScaffoldRequest) {
				r.Repository = &api.ScaffoldRepository{URL: "https://git.example.com/x.git", CredentialID: strings.ToUpper(gitTokenID)}
			},
			files: []string{runcontract.CredentialGitTokenFile}, holds: map[string]string{runcontract.CredentialGitTokenFile: canaryStored},
			check: func(s runcontract.ScaffoldSpec) bool {
				return s.Repository.Username == "robot"
			},
		},
		{
			name: "a stored SSH key",
			change: func(r *api.ScaffoldRequest) {
				r.Repository = &api.ScaffoldRepository{URL: "ssh://git@git.example.com:2222/x.git", CredentialID: gitSSHKeyID}
			},
			files: []string{runcontract.CredentialSSHKeyFile, runcontract.CredentialKnownHostsFile}, holds: map[string]string{runcontract.CredentialKnownHostsFile: knownHosts},
		},
		{
			name:   "the platform's own repository",
			change: func(r *api.ScaffoldRequest) { r.Repository = nil },
			files:  []string{runcontract.CredentialGitTokenFile}, holds: map[string]string{runcontract.CredentialGitTokenFile: canaryPlatform},
		},
		{
			name: "a kubeconfig that holds an AWS key",
			change: func(r *api.ScaffoldRequest) {
				r.Target = api.ScaffoldTarget{Kubeconfig: withKey}
			},
			files: append([]string{runcontract.CredentialGitTokenFile}, aws...), holds: map[string]string{runcontract.CredentialKeysFile: canaryAWS},
			check: func(s runcontract.ScaffoldSpec) bool {
				return cmp.Equal(&runcontract.EKSCluster{Name: "acme", Region: "eu-west-1"}, s.Target.EKS)
			},
		},
		{
			name: "a kubeconfig whose AWS key is stored",
			change: func(r *api.ScaffoldRequest) {
				r.Target = api.ScaffoldTarget{Kubeconfig: withoutKey, CredentialID: awsKeyID}
			},
			files: append([]string{runcontract.CredentialGitTokenFile}, aws...), holds: map[string]string{runcontract.CredentialKeysFile: canaryAWS},
		},
		{
			name:  "a provisioned cluster with the credential of its run",
			given: func(w *world) { w.clusters.cluster.Kubeconfig = []byte(withoutKey) },
			files: append([]string{runcontract.CredentialGitTokenFile}, aws...), holds: map[string]string{runcontract.CredentialKeysFile: canaryAWS},
		},
		{
			name:   "a signing key",
			change: func(r *api.ScaffoldRequest) { r.SigningKey = sshKey },
			files:  []string{runcontract.CredentialGitTokenFile, runcontract.CredentialSigningKeyFile}, holds: map[string]string{runcontract.CredentialSigningKeyFile: sshKey + "\n"},
			check: func(s runcontract.ScaffoldSpec) bool {
				return s.Repository.Signed
			},
		},
	}
	secrets := []string{canaryToken, canaryPassword, canaryTarget, canaryStored, canaryPlatform, canaryAWS, canaryDigest, "CANARY"}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, runstest.NewStore(), runapitest.Sweep)
				if c.given != nil {
					c.given(&w)
				}
				answer := w.Do(http.MethodPost, "/api/v1/scaffolds", request(func(r *api.ScaffoldRequest) {
					if c.change != nil {
						c.change(r)
					}
				}), nil)
				if answer.Code != http.StatusAccepted {
					t.Fatalf("status %d: %s", answer.Code, answer.Body)
				}
				id := runs.ID(runapitest.Decode[api.Scaffold](t, answer).ID)
				files := w.Cluster.Credential(id)
				want := slices.Sorted(slices.Values(slices.Concat(always, c.files)))
				if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
					t.Errorf("files of the credential (-want +got):\n%s", diff)
				}
				for file, text := range c.holds {
					if !strings.Contains(string(files[file]), text) {
						t.Errorf("%s lacks what it is for", file)
					}
				}
				if n := len(files[runcontract.CredentialDigestKeyFile]); n != 32 {
					t.Errorf("the digest key has %d bytes", n)
				}
				spec := w.spec(t, string(id))
				if c.check != nil && !c.check(spec) {
					t.Errorf("spec %+v", spec)
				}
				run, err := w.Engine.Get(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				job, err := json.Marshal(w.Cluster.Job(id))
				if err != nil {
					t.Fatal(err)
				}
				for where, text := range map[string]string{
					"the answer": answer.Body.String(), "the stored run": fmt.Sprintf("%s %+v", run.Inputs, run), "the Job": string(job), "the ConfigMap": fmt.Sprint(w.Cluster.Files(id)),
				} {
					for _, secret := range secrets {
						if strings.Contains(text, secret) {
							t.Errorf("%s holds %q", where, secret)
						}
					}
				}
			})
		})
	}
}

// TestDigestKeys: the same for every run of an environment, and another one's differs.
func TestDigestKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), runapitest.Sweep)
		key := func(environment string) string {
			run := w.post(t, request(func(r *api.ScaffoldRequest) { r.Environment = environment }))
			files := w.Cluster.Credential(runs.ID(run.ID))
			w.Begin(t, run.ID)
			w.Finish(t, run.ID, success)
			return string(files[runcontract.CredentialDigestKeyFile])
		}
		if first := key("acme"); first != key("acme") || first == key("other") || strings.Contains(first, canaryDigest) {
			t.Error("keys are not the environment's own")
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	helper := kubeconfigOf(t, "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: eks-token-helper, args: [--region, eu-west-1, --cluster-name, acme]}")
	cases := []struct {
		name   string
		given  func(*world)
		change func(*api.ScaffoldRequest)
		status int
		code   string
		field  string
		says   string
	}{
		{"an unknown provision", nil, func(r *api.ScaffoldRequest) { r.Target.ProvisionID = unknownID }, 422, "invalid_request", "body.target.provision_id", "knows none"},
		{"a provision that failed", func(w *world) {
			w.clusters.fail = &scaffold.ClusterError{Provision: provisionID, Status: api.StatusFailed, Reason: "it has built no cluster; retry it first"}
		}, nil, 409, codeProvisionNotReady, "body.target.provision_id", "failed"},
		{"cluster-provisioner is away", func(w *world) {
			w.clusters.fail = fmt.Errorf("%w: 10.1.2.3", scaffold.ErrProvisionerUnavailable)
		}, nil, 502, codeProvisionerUnavailable, "", "try again"},
		{"cluster-provisioner refuses", func(w *world) { w.clusters.fail = scaffold.ErrProvisionerForbidden }, nil, 502, codeProvisionerForbidden, "", "renew the key"},
		{"auth-service is away", func(w *world) { w.credentials.fail = cloudcred.ErrUnavailable }, func(r *api.ScaffoldRequest) {
			r.Repository = &api.ScaffoldRepository{URL: "https://git.example.com/x.git", CredentialID: gitTokenID}
		}, 502, runapi.CodeAuthServiceUnavailable, "", "try again"},
		{"an unknown Git credential", nil, func(r *api.ScaffoldRequest) {
			r.Repository = &api.ScaffoldRepository{URL: "https://git.example.com/x.git", CredentialID: unknownID}
		}, 422, "invalid_request", "body.repository.credential_id", "knows none"},
		{"an AWS credential for Git", nil, func(r *api.ScaffoldRequest) {
			r.Repository = &api.ScaffoldRepository{URL: "https://git.example.com/x.git", CredentialID: awsKeyID}
		}, 422, "invalid_request", "body.repository.credential_id", "git_token or git_ssh_key"},
		{"a token for an SSH URL", nil, func(r *api.ScaffoldRequest) {
			r.Repository = &api.ScaffoldRepository{URL: "git@git.example.com:x.git", CredentialID: gitTokenID}
		}, 422, "invalid_request", "body.repository.credential_id", "of kind git_ssh_key"},
		{"two ways in", nil, func(r *api.ScaffoldRequest) { r.Repository.CredentialID = gitTokenID }, 422, "invalid_request", "body.repository", "one of"},
		{"no way in", nil, func(r *api.ScaffoldRequest) { r.Repository.Token = "" }, 422, "invalid_request", "body.repository.token", "required"},
		{"no repository at all", func(w *world) { w.repository = nil }, func(r *api.ScaffoldRequest) { r.Repository = nil }, 422, "invalid_request", "body.repository", "is required"},
		{"a key with a passphrase", nil, func(r *api.ScaffoldRequest) {
			r.SigningKey = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMHcCAQEE\n-----END ENCRYPTED PRIVATE KEY-----"
		}, 422, "invalid_request", "body.signing_key", "passphrase"},
		{"an AWS session that ends too soon", func(w *world) {
			w.clusters.cluster.Kubeconfig = helper
			w.credentials.ends = time.Now().Add(runTimeout / 2)
		}, nil, 422, "invalid_request", "body.target.provision_id", "lasts as long"},
		{"an exec plugin without a key", nil, func(r *api.ScaffoldRequest) {
			r.Target = api.ScaffoldTarget{Kubeconfig: string(helper)}
		}, 422, "invalid_request", "body.target.credential_id", "required"},
		{"a certificate that is none", nil, func(r *api.ScaffoldRequest) { r.Target.Certificate = "<html>" }, 422, "invalid_request", "body.target.certificate", "PEM"},
		{"a branch that the run itself would push", nil, func(r *api.ScaffoldRequest) {
			r.Mode, r.Repository.Branch = api.PushPullRequest, "kubeopera/acme-prod"
		}, 422, "invalid_request", "body.repository.branch", "merged"},
		{"no registry", nil, func(r *api.ScaffoldRequest) { r.Registry = api.ScaffoldRegistry{} }, 422, "invalid_request", "body.registry.server", "required"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			if c.given != nil {
				c.given(&w)
				w.API = w.serve(t)
			}
			p := runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/scaffolds", request(func(r *api.ScaffoldRequest) {
				if c.change != nil {
					c.change(r)
				}
			}), nil), c.status, c.code)
			text := p.Error()
			if !strings.Contains(text, c.says) || strings.Contains(text, "10.1.2.3") {
				t.Errorf("problem %s does not say %q", text, c.says)
			}
			if c.field != "" && !slices.ContainsFunc(p.Errors, func(f api.FieldProblem) bool { return f.Location == c.field && strings.Contains(f.Message, c.says) }) {
				t.Errorf("no problem of %s that says %q: %+v", c.field, c.says, p.Errors)
			}
			if len(w.Recent(t, nil)) > 0 {
				t.Error("a refused request has started a run")
			}
		})
	}
}

func TestOneRunOfAnEnvironmentAtATime(t *testing.T) {
	t.Parallel()
	w := setup(t)
	run := w.post(t, request(nil))
	p := runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/scaffolds", request(nil), nil), http.StatusConflict, runapi.CodeEnvironmentBusy)
	if !strings.HasSuffix(p.Instance, run.ID) {
		t.Errorf("instance %s", p.Instance)
	}
}

// TestTheSameKeyGivesTheSameRun: secrets are part of what is compared.
func TestTheSameKeyGivesTheSameRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := map[string]string{"Idempotency-Key": "one"}
	first := w.Do(http.MethodPost, "/api/v1/scaffolds", request(nil), key)
	w.clusters.fail = scaffold.ErrProvisionerUnavailable // a repetition asks nobody
	again := w.Do(http.MethodPost, "/api/v1/scaffolds", request(nil), key)
	if again.Code != http.StatusAccepted || again.Header().Get("Idempotent-Replayed") != "true" || again.Header().Get("Location") != first.Header().Get("Location") {
		t.Errorf("status %d, headers %v: %s", again.Code, again.Header(), again.Body)
	}
	other := request(func(r *api.ScaffoldRequest) { r.Registry.Password = "another" })
	runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/scaffolds", other, key), http.StatusUnprocessableEntity, runapi.CodeIdempotencyKeyReused)
}

func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), runapitest.Sweep)
		run := w.post(t, request(func(r *api.ScaffoldRequest) { r.RotateSecrets = true }))
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/scaffolds/"+run.ID+"/retry", "", nil), http.StatusConflict, runapi.CodeRunNotEnded)
		if got := w.spec(t, run.ID).Rotation; got != run.ID {
			t.Errorf("rotation %q", got)
		}
		w.Begin(t, run.ID)
		w.Finish(t, run.ID, failure)

		p := runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/scaffolds/"+run.ID+"/retry", "", nil), http.StatusConflict, codeSecretsRequired)
		if diff := cmp.Diff([]api.FieldProblem{{Location: "body.registry_password", Message: "is required"}, {Location: "body.token", Message: "is required"}}, p.Errors); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/scaffolds/"+run.ID+"/retry", `{"token":"`+canaryToken+`"}`, nil), http.StatusConflict, codeSecretsRequired)
		all := `{"token":"` + canaryToken + `","registry_password":"` + canaryPassword + `"`
		p = runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/scaffolds/"+run.ID+"/retry", all+`,"ssh_key":"x"}`, nil), http.StatusUnprocessableEntity, "invalid_request")
		if len(p.Errors) != 1 || p.Errors[0].Location != "body.ssh_key" {
			t.Errorf("problems %+v", p.Errors)
		}
		again := runapitest.Post[api.Scaffold](t, w.API, "/scaffolds/"+run.ID+"/retry", all+"}", nil)
		if again.RetryOf != run.ID || again.Environment != run.Environment || again.ID == run.ID {
			t.Errorf("the retry is %+v", again)
		}
		spec := w.spec(t, again.ID)
		if spec.Rotation != run.ID {
			t.Errorf("the retry rotates for %q, not for the run that asked first", spec.Rotation)
		}
		if got := string(w.Cluster.Credential(runs.ID(again.ID))[runcontract.CredentialGitTokenFile]); got != canaryToken {
			t.Error("the retry has not the token that it was sent")
		}
		w.Begin(t, again.ID)
		w.Finish(t, again.ID, failure)
		third := runapitest.Post[api.Scaffold](t, w.API, "/scaffolds/"+again.ID+"/retry", all+"}", nil)
		if got := w.spec(t, third.ID).Rotation; got != run.ID {
			t.Errorf("the retry of a retry rotates for %q", got)
		}
		w.Begin(t, third.ID)
		w.Finish(t, third.ID, success)
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/scaffolds/"+third.ID+"/retry", all+"}", nil), http.StatusConflict, runapi.CodeRunSucceeded)
	})
}

// TestRetryOfACallersCluster: a retry is for the same cluster.
func TestRetryOfACallersCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), runapitest.Sweep)
		kubeconfig := string(kubeconfigOf(t, "token: "+canaryTarget))
		run := w.post(t, request(func(r *api.ScaffoldRequest) { r.Repository, r.Target = nil, api.ScaffoldTarget{Kubeconfig: kubeconfig} }))
		w.Begin(t, run.ID)
		w.Finish(t, run.ID, failure)
		body := func(kubeconfig string) string {
			text, err := json.Marshal(api.ScaffoldSecrets{RegistryPassword: canaryPassword, Kubeconfig: kubeconfig})
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		other := strings.Replace(kubeconfig, "192.0.2.1", "192.0.2.2", 1)
		p := runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/scaffolds/"+run.ID+"/retry", body(other), nil), http.StatusUnprocessableEntity, "invalid_request")
		if len(p.Errors) != 1 || p.Errors[0].Location != "body.kubeconfig" {
			t.Errorf("problems %+v", p.Errors)
		}
		// The platform has moved: its token goes to where its repository is now.
		w.repository = &scaffold.Repository{URL: "https://new.example.com/gitops.git", Branch: "main", Platform: true, Auth: runcontract.RepositoryAuthToken, Username: "git"}
		w.API = w.serve(t)
		again := runapitest.Post[api.Scaffold](t, w.API, "/scaffolds/"+run.ID+"/retry", body(kubeconfig), nil)
		if again.RepositoryURL != w.repository.URL {
			t.Errorf("the platform's token goes to %s", again.RepositoryURL)
		}
	})
}

func TestPullRequestsHaveTimeToBeMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), runapitest.Sweep)
		run := w.post(t, request(func(r *api.ScaffoldRequest) { r.Mode = api.PushPullRequest }))
		spec := w.spec(t, run.ID)
		if want := int((runTimeout + 2*mergeTimeout).Seconds()); spec.TimeoutSeconds != want || spec.MergeTimeoutSeconds != int(mergeTimeout.Seconds()) || spec.Repository.MergeBranch != "kubeopera/acme-prod" {
			t.Errorf("spec %+v", spec)
		}
		if deadline := *w.Cluster.Job(runs.ID(run.ID)).Spec.Template.Spec.ActiveDeadlineSeconds; deadline <= int64(spec.TimeoutSeconds) {
			t.Errorf("the pod's deadline is %d s, the runner's own %d s", deadline, spec.TimeoutSeconds)
		}
	})
}

func packed(tb testing.TB, text string) []byte {
	tb.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func TestDiff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), runapitest.Sweep)
		diff := func(id string) string { return "/api/v1/scaffolds/" + id + "/diff" }
		run := w.post(t, request(func(r *api.ScaffoldRequest) { r.DryRun = true }))
		runapitest.Refused(t, w.Do(http.MethodGet, diff(run.ID), "", nil), http.StatusConflict, codeNoDiff)
		w.Begin(t, run.ID)
		w.Cluster.Publish(runs.ID(run.ID), runcontract.KeyDiff, packed(t, "--- a\n+++ b\n"))
		w.Finish(t, run.ID, runcontract.Result{Outcome: runcontract.OutcomeSucceeded, Message: "2 files would change"})
		answer := w.Do(http.MethodGet, diff(run.ID), "", nil)
		if answer.Code != http.StatusOK || answer.Body.String() != "--- a\n+++ b\n" || !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/x-diff") {
			t.Errorf("status %d, headers %v: %s", answer.Code, answer.Header(), answer.Body)
		}
		pushed := w.post(t, request(nil))
		runapitest.Refused(t, w.Do(http.MethodGet, diff(pushed.ID), "", nil), http.StatusConflict, codeNoDiff)
		list := runapitest.Decode[api.ScaffoldList](t, w.Do(http.MethodGet, "/api/v1/scaffolds?operation=dry_run", "", nil))
		if len(list.Scaffolds) != 1 || list.Scaffolds[0].ID != run.ID || !list.Scaffolds[0].DryRun {
			t.Errorf("dry runs: %+v", list.Scaffolds)
		}
	})
}

func TestOpenAPIDocumentIsTheCommittedOne(t *testing.T) {
	t.Parallel()
	doc, err := setup(t).Handler.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "../../../../docs/api/gitops-scaffolder.json", doc)
}
