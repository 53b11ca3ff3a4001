package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/runnertest"
)

func TestRun_scaffolds_an_empty_repository_in_two_passes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	result := f.succeed()
	f.target.unseal(f.git)
	f.noSecret()
	if diff := cmp.Diff([]string{"Scaffold acme: whole environment", "Scaffold acme: infrastructure layer"}, f.git.log(t)); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
	want := &api.ScaffoldOutput{
		GitOpsPath:             "clusters/acme",
		Commits:                &api.ScaffoldCommits{Infrastructure: f.git.git(t, nil, "rev-parse", "main~1"), Complete: f.git.head(t)},
		CertificateFingerprint: result.Scaffold.CertificateFingerprint,
	}
	if diff := cmp.Diff(want, result.Scaffold); diff != "" || len(want.CertificateFingerprint) != 64 {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	body := f.git.git(t, nil, "log", "-1", "--format=%an <%ae> %cn%n%B", "main")
	for _, text := range []string{"Scaffolder <scaffolder@example.org> Scaffolder", "Scaffold-Run: " + f.spec.ID, "Scaffold-Environment: acme", "Scaffold-Pass: complete"} {
		if !strings.Contains(body, text) {
			t.Errorf("the commit lacks %q:\n%s", text, body)
		}
	}
	if n := len(f.target.passwords()); n < 3 {
		t.Errorf("%d passwords were sealed", n)
	}
	if f.target.nudges == 0 {
		t.Error("Flux was not nudged")
	}
	var phases []api.Phase
	for _, p := range f.outputs.Progress() {
		phases = append(phases, p.Phase)
	}
	if phases = slices.Compact(phases); phases[0] != api.PhaseClone || phases[len(phases)-1] != api.PhaseDone {
		t.Errorf("phases %v", phases)
	}
	head := f.git.head(t)

	f.next()
	if result := f.succeed(); f.git.head(t) != head || result.Scaffold.Commits.Complete != head || result.Scaffold.Commits.Infrastructure != "" {
		t.Errorf("the same run again: %+v, branch at %s, was %s", result.Scaffold, f.git.head(t), head)
	}

	f.next()
	f.spec.Inputs.Domain = "other.example.com"
	f.succeed()
	changed := f.git.git(t, nil, "diff", "--name-only", head, "main")
	if strings.Contains(changed, "/sealed-secrets/") || !strings.Contains(changed, "external-dns.yaml") || !strings.Contains(changed, "ingress-hostname.yaml") {
		t.Errorf("another domain changes:\n%s", changed)
	}
}

func TestRun_rotates_and_seals_again(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.succeed()
	f.target.unseal(f.git)
	before := f.target.passwords()

	f.next()
	f.target.set(func() { f.target.key = sharedKeys()[1] }) // the controller has renewed its key
	f.succeed()
	f.target.unseal(f.git)
	if got := f.target.passwords(); !sameSet(before, got) {
		t.Error("another certificate has changed passwords")
	}

	f.next()
	f.spec.Rotation = f.spec.ID
	f.succeed()
	f.target.unseal(f.git)
	after, head := f.target.passwords(), f.git.head(t)
	for _, password := range after {
		if slices.Contains(before, password) {
			t.Error("a password was not rotated")
		}
	}

	f.next() // a retry of the rotation
	if f.succeed(); f.git.head(t) != head {
		t.Error("the retry of a rotation has rotated again")
	}

	f.next()
	f.spec.Rotation = ""
	f.target.set(func() { // the cluster was built anew, and lost all
		f.target.key, f.target.secrets = sharedKeys()[0], map[string]map[string][]byte{}
	})
	f.fail(runcontract.CodeSeal, "ask for a rotation")
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// A run that is killed wherever it is, and the same run again, give what a run gives
// that nobody has disturbed.
func TestRun_killed_anywhere_resumes_to_the_same_tree(t *testing.T) {
	t.Parallel()
	undisturbed := setup(t)
	undisturbed.succeed()
	want := unsealedPart(undisturbed.git.tree(t))
	for _, step := range []string{
		"== cloning the repository", "== generating the infrastructure layer", "== pushing the infrastructure layer", "pushed ",
		"== waiting for sealed-secrets", "== generating the whole environment", "== pushing the whole environment", "== publishing the result",
	} {
		t.Run("after "+strings.TrimPrefix(step, "== "), func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			c := f.start()
			c.until(step)
			if err := c.cmd.Process.Kill(); err != nil { // init takes its child along
				t.Fatal(err)
			}
			c.wait()
			f.removeRest()
			f.next()
			f.succeed()
			if diff := cmp.Diff(want, unsealedPart(f.git.tree(t))); diff != "" {
				t.Errorf("tree (-undisturbed +resumed):\n%s", diff)
			}
			f.target.unseal(f.git)
			head := f.git.head(t)
			f.next()
			if f.succeed(); f.git.head(t) != head {
				t.Error("there was something left to do")
			}
			if n := len(f.git.log(t)); n > 2 {
				t.Errorf("%d commits", n)
			}
		})
	}
}

// unsealedPart is a tree without what is another one each time.
func unsealedPart(tree map[string][]byte) map[string]string {
	part := map[string]string{}
	for path, data := range tree {
		part[path] = string(data)
		if strings.Contains(path, "/sealed-secrets/") {
			part[path] = "sealed"
		}
	}
	return part
}

func TestRun_dry_pushes_nothing_and_shows_all(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Operation = api.OperationDryRun
	result := f.succeed()
	if f.git.pushed() != 0 || !strings.Contains(result.Message, "sealed for nobody") || result.Scaffold != nil && result.Scaffold.GitOpsPath != "" {
		t.Errorf("result %+v after %d pushes", result, f.git.pushed())
	}
	diff := string(gunzip(t, f.outputs.Data(runcontract.KeyDiff)))
	for _, text := range []string{"+++ b/clusters/acme/flux-system/gotk-sync.yaml", "+++ b/clusters/acme/infrastructure/sealed-secrets.yaml", "auth.acme.example.com", "encryptedData"} {
		if !strings.Contains(diff, text) {
			t.Errorf("the diff lacks %q", text)
		}
	}
}

func TestRun_signs_its_commits(t *testing.T) {
	t.Parallel()
	f := setup(t)
	key := newSSHKey(t)
	f.write("credential/"+runcontract.CredentialSigningKeyFile, key.private)
	f.spec.Repository.Signed = true
	f.succeed()
	f.write("signers", "scaffolder@example.org "+key.public+"\n")
	f.git.git(t, nil, "config", "gpg.ssh.allowedSignersFile", f.dir+"/signers")
	for _, commit := range []string{"main", "main~1"} {
		f.git.git(t, nil, "-c", "gpg.format=ssh", "verify-commit", commit)
	}
}

func TestRun_signs_the_tokens_of_an_EKS_cluster_itself(t *testing.T) {
	t.Parallel()
	f := setup(t)
	config := runnertest.Kubeconfig(f.target.Server, "")
	config.AuthInfos["runner"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1beta1", Command: "aws", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		Args: []string{"--region", "eu-west-1", "eks", "get-token", "--cluster-name", "acme", "--output", "json"},
		Env:  []clientcmdapi.ExecEnvVar{{Name: "AWS_ACCESS_KEY_ID", Value: "AKIAEXAMPLEEXAMPLE00"}, {Name: "AWS_SECRET_ACCESS_KEY", Value: awsSecret}},
	}}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	f.write("credential/"+runcontract.CredentialKubeconfigFile, string(data))
	f.write("credential/"+runcontract.CredentialConfigFile, "[profile kubeopera]\nregion = eu-west-1\n")
	f.write("credential/"+runcontract.CredentialKeysFile, "[kubeopera]\naws_access_key_id = AKIAEXAMPLEEXAMPLE00\naws_secret_access_key = "+awsSecret+"\n")
	f.spec.Target.EKS = &runcontract.EKSCluster{Name: "acme", Region: "eu-west-1"}
	f.target.eks, f.target.token = true, "no other"
	f.succeed()
	f.target.unseal(f.git)
}
