package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// A credential that may read and not write is found out by the first push.
func TestRun_says_what_a_reader_lacks(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.git.commit(t, "main", map[string]string{"README.md": "ours"})
	f.git.git(t, nil, "config", "http.receivepack", "false") // the server answers 403
	head := f.git.head(t)
	f.fail(runcontract.CodePushRefused, "let the credential push there", "pull_request")
	if f.git.head(t) != head {
		t.Error("the branch has moved")
	}
}

// A server that known_hosts does not name is as strange as one with another key.
func TestRun_says_that_known_hosts_lacks_the_server(t *testing.T) {
	t.Parallel()
	f := setup(t)
	key := newSSHKey(t)
	address, host := sshServer(t, f.git.dir, key)
	f.spec.Repository.Auth, f.spec.Repository.CA, f.spec.Repository.Username = runcontract.RepositoryAuthSSH, false, ""
	f.spec.Repository.URL = "ssh://git@" + address + "/" + filepath.Base(f.git.dir)
	f.write("credential/"+runcontract.CredentialSSHKeyFile, key.private)
	for _, hosts := range []string{"", "git.example.com " + host.public + "\n", "[" + strings.Replace(address, ":", "]:", 1) + " no-key\n"} {
		f.write("credential/"+runcontract.CredentialKnownHostsFile, hosts)
		f.fail(runcontract.CodeRepositoryHostKey, "check known_hosts", "with its port")
		f.next()
	}
}

// Where nothing leads to the certificate, all that was tried is told, with what
// would help each.
func TestRun_says_what_each_way_to_the_certificate_lacks(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.target.proxy = func(w http.ResponseWriter) { f.target.status(w, http.StatusServiceUnavailable, "ServiceUnavailable") }
	f.target.key.pem = []byte("<html>")
	f.spec.Target.Certificate = string(newSealingKey(-time.Hour).pem)
	f.fail(runcontract.CodeCertificate,
		"let it reach the nodes on TCP 8080", "by port-forward: no certificate in PEM",
		"nor can the one that came with the request: the certificate expired on", "renew the controller's sealing key")
}

func TestRun_says_what_to_do_without_sealed_secrets(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.target.deployed = func() bool { return false }
	f.spec.SealedSecretsTimeoutSeconds = 1
	f.fail(runcontract.CodeSealedSecretsMissing, "its Deployment is not there yet", "put that right on the target or in the repository", "start the run again")
}

// Nothing can be merged into a branch that is not born: the first commit makes it,
// and the rest waits for a merge.
func TestRun_begins_an_empty_repository_before_it_waits_for_merges(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Repository.Mode, f.spec.Repository.MergeBranch, f.spec.MergeTimeoutSeconds = api.PushPullRequest, "scaffold/acme", 300
	c := f.start()
	c.until("waiting for branch scaffold/acme to be merged into main")
	c.until("to scaffold/acme\n")
	if log := f.git.log(t); len(log) != 1 || log[0] != "Scaffold acme: infrastructure layer" {
		t.Errorf("main has the commits %q", log)
	}
	f.merge(t)
	if result := f.ended(c); result.Outcome != runcontract.OutcomeSucceeded || result.Scaffold.Commits.Complete != f.git.head(t) {
		t.Errorf("result %+v", result)
	}
	f.target.unseal(f.git)
}
