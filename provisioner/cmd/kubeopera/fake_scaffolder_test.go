package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/kubeopera/platform/shared/api"
)

// newFakeScaffolder is gitops-scaffolder.
func newFakeScaffolder() *fakeService[api.Scaffold] {
	f := &fakeService[api.Scaffold]{
		path: "scaffolds", key: scaffolderAPIKey,
		parts: func(s *api.Scaffold) parts {
			operation := api.OperationScaffold
			if s.DryRun {
				operation = api.OperationDryRun
			}
			return parts{&s.RunStatus, &s.ID, &s.RetryOf, &s.RequestedBy, s.Environment, operation}
		},
		request: scaffoldOf, retry: needSecrets, course: scaffoldCourse,
		page: func(runs []api.Scaffold, next string) any {
			return api.ScaffoldList{Scaffolds: runs, NextCursor: next}
		},
	}
	f.more = func(w http.ResponseWriter, _ *http.Request, what string, run *fakeRun[api.Scaffold], _ []byte) bool {
		if what != "GET diff" {
			return false
		}
		if s := f.copyOf(run); !s.DryRun || s.Status != api.StatusSucceeded {
			problem(w, api.Problem{Status: 409, Code: "no_diff", Detail: "only a dry run has a diff"})
			return true
		}
		w.Header().Set("Content-Type", "text/x-diff")
		_, _ = io.WriteString(w, fakeDiff)
		return true
	}
	f.serve()
	return f
}

const fakeDiff = `diff --git a/clusters/acme/x.yaml b/clusters/acme/x.yaml
--- a/clusters/acme/x.yaml
+++ b/clusters/acme/x.yaml
@@ -1,3 +1,3 @@
 kept
--- gone` + "\x1b[2J" + `
+new
 kept
\ No newline at end of file
`

func scaffoldOf(body []byte) (api.Scaffold, *api.Problem) {
	var q api.ScaffoldRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil || q.Environment == "" || q.Registry.Password == "" {
		return api.Scaffold{}, &api.Problem{Status: 422, Code: "invalid_request", Detail: "the request is not valid", Errors: []api.FieldProblem{
			{Location: "body.environment", Message: "is required"}, {Location: "body.registry.password", Message: "is required"},
		}}
	}
	s := api.Scaffold{
		Environment: q.Environment, Domain: q.Domain, Region: q.Region, Email: q.Email, RepositoryURL: "https://git.example.com/platform/gitops.git", Branch: "main",
		ProvisionID: q.Target.ProvisionID, Server: "https://acme.example.com:6443", Services: q.Services,
		RegistryServer: q.Registry.Server, RegistryUsername: q.Registry.Username, Mode: api.PushDirect, DryRun: q.DryRun, RotateSecrets: q.RotateSecrets,
	}
	if q.Repository != nil {
		s.RepositoryURL = q.Repository.URL
	}
	return s, nil
}

func needSecrets(body []byte) *api.Problem {
	var q api.ScaffoldSecrets
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return &api.Problem{Status: 422, Code: "invalid_request", Detail: "the request is not valid"}
	}
	p := &api.Problem{Status: 409, Code: "secrets_required", Detail: "the run's request held secrets in clear"}
	for field, value := range map[string]string{"token": q.Token, "registry_password": q.RegistryPassword} {
		if value == "" {
			p.Errors = append(p.Errors, api.FieldProblem{Location: "body." + field, Message: "is required"})
		}
	}
	if len(p.Errors) == 0 {
		return nil
	}
	return p
}

func scaffoldCourse(s api.Scaffold) []api.Scaffold {
	s.ScaffoldOutput = api.ScaffoldOutput{}
	become := func(status api.RunStatus, done int, change func(*api.Scaffold)) api.Scaffold {
		next := s
		next.RunStatus = status
		if done > 0 {
			next.Progress = &api.Progress{Done: done, Total: 7}
		}
		if change != nil {
			change(&next)
		}
		return next
	}
	infrastructure := func(s *api.Scaffold) {
		s.GitOpsPath, s.Commits = "clusters/"+s.Environment, &api.ScaffoldCommits{Infrastructure: "1111111111111111111111111111111111111111"}
	}
	states := []api.Scaffold{
		become(running(s.RunStatus, api.PhaseClone), 0, nil),
		become(running(s.RunStatus, api.PhaseGenerateInfrastructure), 1, nil),
		become(running(s.RunStatus, api.PhaseWaitingForSealedSecrets), 3, infrastructure),
	}
	switch s.Environment {
	case "stays":
		return states[:1]
	case "breaks":
		return append(states, become(ended(s.RunStatus, api.StatusFailed, "sealed-secrets is not Available", "sealed_secrets_unavailable"), 3, infrastructure))
	}
	if s.DryRun {
		return []api.Scaffold{states[0], become(ended(s.RunStatus, api.StatusSucceeded, "1 file would change", ""), 7, nil)}
	}
	return append(states, become(ended(s.RunStatus, api.StatusSucceeded, "pushed", ""), 7, func(s *api.Scaffold) {
		infrastructure(s)
		s.Commits.Complete = "2222222222222222222222222222222222222222"
	}))
}
