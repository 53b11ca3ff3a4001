package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	kube "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/api"
)

// fakeAPI is cluster-provisioner.
type fakeAPI struct {
	*fakeService[api.Provision]
	preamble string // of every kubeconfig
	ca       []byte
}

func newFakeAPI(tb testing.TB) *fakeAPI {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	f := &fakeAPI{ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	f.fakeService = &fakeService[api.Provision]{
		path: "provisions", key: apiKey,
		parts: func(p *api.Provision) parts {
			return parts{&p.RunStatus, &p.ID, &p.RetryOf, &p.RequestedBy, p.TerraformEnvironment, p.Operation}
		},
		request: provisionOf, retry: func([]byte) *api.Problem { return nil }, course: provisionCourse, more: f.answer,
		page: func(runs []api.Provision, next string) any {
			return api.ProvisionList{Provisions: runs, NextCursor: next}
		},
	}
	f.serve()
	return f
}

func provisionOf(body []byte) (api.Provision, *api.Problem) {
	var q api.ProvisionRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil || q.Name == "" || q.Topology == "" {
		return api.Provision{}, &api.Problem{Status: 422, Code: "invalid_request", Detail: "the request is not valid", Errors: []api.FieldProblem{
			{Location: "body.name", Message: "is required"}, {Location: "body.topology", Message: "must be eks or vanilla_kubeadm"},
		}}
	}
	if q.Operation == "" {
		q.Operation = api.OperationApply
	}
	if q.TerraformEnvironment == "" {
		q.TerraformEnvironment = q.Name
	}
	return api.Provision{
		Name: q.Name, TerraformEnvironment: q.TerraformEnvironment, Topology: q.Topology, Region: q.Region, KubernetesVersion: q.KubernetesVersion, Operation: q.Operation,
	}, nil
}

func provisionCourse(p api.Provision) []api.Provision {
	p.ProvisionDetails = api.ProvisionDetails{}
	become := func(s api.RunStatus, change func(*api.Provision)) api.Provision {
		next := p
		next.RunStatus = s
		if change != nil {
			change(&next)
		}
		return next
	}
	if p.Operation == api.OperationPlan {
		return []api.Provision{
			become(running(p.RunStatus, api.PhasePlan), nil),
			become(ended(p.RunStatus, api.StatusSucceeded, "plan: 3 to add, 1 to change, 0 to destroy", ""), func(p *api.Provision) { p.Changes = &api.Changes{Add: 3, Change: 1} }),
		}
	}
	states := []api.Provision{
		become(running(p.RunStatus, api.PhaseStarting), nil),
		become(running(p.RunStatus, api.PhaseInit), nil),
		become(running(p.RunStatus, api.PhaseApply), func(p *api.Provision) {
			p.Progress = &api.Progress{Done: 2, Total: 4, Current: "module.vpc.aws_vpc.this"}
		}),
		become(running(p.RunStatus, api.PhaseWaitingForNodes), func(p *api.Provision) {
			p.Nodes = []api.Node{{Name: "control-plane-0", State: api.NodeJoined}, {Name: "worker-0", State: api.NodeJoining, Message: "kubeadm join"}}
		}),
	}
	switch p.TerraformEnvironment {
	case "stays":
		return states[:1]
	case "breaks":
		return append(states[:3], become(ended(p.RunStatus, api.StatusFailed, "Error: no more addresses \x1b[31min the subnet", "terraform_failed"), nil))
	case "locked":
		return append(states[:2], become(ended(p.RunStatus, api.StatusFailed, "the state is locked", "state_locked"), func(p *api.Provision) {
			p.Lock = &api.StateLock{ID: "lock-1", Who: "me@laptop", Created: p.CreatedAt}
		}))
	}
	return append(states, become(ended(p.RunStatus, api.StatusSucceeded, "applied: 4 added, 0 changed, 0 removed", ""), nil))
}

func (f *fakeAPI) answer(w http.ResponseWriter, r *http.Request, what string, run *fakeRun[api.Provision], _ []byte) bool {
	p := f.copyOf(run)
	switch what {
	case "DELETE ":
		p.Operation, p.RetryOf = api.OperationDestroy, ""
		f.accept(w, r, p)
	case "POST unlock":
		p.Operation, p.RetryOf = api.OperationUnlock, ""
		f.accept(w, r, p)
	case "GET kubeconfig":
		f.kubeconfig(w, p)
	default:
		return false
	}
	return true
}

func (f *fakeAPI) kubeconfig(w http.ResponseWriter, run api.Provision) {
	if run.Status != api.StatusSucceeded {
		problem(w, api.Problem{Status: 409, Code: "kubeconfig_not_ready", Detail: "the run has not succeeded"})
		return
	}
	name := run.Name
	c := kube.NewConfig()
	c.CurrentContext = name
	c.Contexts[name] = &kube.Context{Cluster: name, AuthInfo: name}
	c.Clusters[name] = &kube.Cluster{Server: "https://" + run.TerraformEnvironment + ".example.com:6443", CertificateAuthorityData: f.ca}
	c.AuthInfos[name] = &kube.AuthInfo{Token: "token-of-" + run.ID}
	data, err := clientcmd.Write(*c)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(append([]byte(f.preamble), data...))
}
