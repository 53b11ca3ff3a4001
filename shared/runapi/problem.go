package runapi

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runservice"
)

// Codes of the problems that all services of runs answer with, beside those of
// every service. A run that is not found has <singular>_not_found.
const (
	CodeEnvironmentBusy        = "environment_busy"
	CodeConflict               = "conflict"
	CodeNoLog                  = "no_log"
	CodeAuthServiceForbidden   = "auth_service_forbidden"
	CodeAuthServiceUnavailable = "auth_service_unavailable"
	CodeKubernetesUnavailable  = "kubernetes_unavailable"
	CodeDatabaseUnavailable    = "database_unavailable"
	CodeIdempotencyKeyReused   = "idempotency_key_reused"
	CodeRunEnded               = "run_ended"
	CodeRunNotEnded            = "run_not_ended"
	CodeRunSucceeded           = "run_succeeded"
	CodeCancelTooEarly         = "cancel_too_early"
	CodeCredentialUnusable     = "credential_unusable" //nolint:gosec // a code
	CodeTooManyWaiters         = "too_many_waiters"
	CodeTooManyFollowers       = "too_many_followers"
)

// Sentinel is the answer to an error that carries no data.
type Sentinel struct {
	Err    error
	Status int
	Code   string
	Detail string
}

// Match is the answer of the first that matches, nil if none does.
func Match(table []Sentinel, err error) *api.Problem {
	for _, s := range table {
		if errors.Is(err, s.Err) {
			return &api.Problem{Status: s.Status, Code: s.Code, Detail: s.Detail}
		}
	}
	return nil
}

// Conflict is the answer to what a run is in the way of; run is empty if none is.
func (r Resource) Conflict(code string, run runs.ID, format string, args ...any) *api.Problem {
	p := &api.Problem{Status: http.StatusConflict, Code: code, Detail: fmt.Sprintf(format, args...)}
	if run != "" {
		p.Instance = r.Location(string(run))
	}
	return p
}

// Problem is the answer to an error that all services share, nil for any other.
func (r Resource) Problem(err error) *api.Problem {
	if e, ok := errors.AsType[*runservice.InvalidError](err); ok {
		return Invalid(e.Problems)
	}
	if e, ok := errors.AsType[*runs.BusyError](err); ok {
		return r.Conflict(CodeEnvironmentBusy, e.Holder, "the environment %s has a live run, %s; wait until it has ended", e.Environment, e.Holder)
	}
	if e, ok := errors.AsType[*runservice.CredentialError](err); ok {
		return r.Conflict(CodeCredentialUnusable, "", "the run needs %s; to use another credential, start a run that names it", e.Reason)
	}
	if e, ok := errors.AsType[*runs.EndedError](err); ok {
		return r.Conflict(CodeRunEnded, "", "the run has ended: it is %s", e.Status)
	}
	if e, ok := errors.AsType[*runs.TooEarlyError](err); ok {
		if e.NotBefore.IsZero() {
			return r.Conflict(CodeCancelTooEarly, "", "the run was not asked to stop yet; cancel it without force first")
		}
		return r.Conflict(CodeCancelTooEarly, "", "the run has time to save its work until %s; force a cancel after that", e.NotBefore.UTC().Format(time.RFC3339))
	}
	return Match([]Sentinel{
		{runs.ErrKeyReused, http.StatusUnprocessableEntity, CodeIdempotencyKeyReused, "the Idempotency-Key came with another request before; take a new key for a new request"},
		{runservice.ErrNotEnded, http.StatusConflict, CodeRunNotEnded, "the run has not ended; wait for that, or cancel it"},
		{runservice.ErrSucceeded, http.StatusConflict, CodeRunSucceeded, "the run has succeeded; start a new one to do the same again"},
		{runs.ErrTooManyWaiters, http.StatusServiceUnavailable, CodeTooManyWaiters, "too many requests wait for runs; ask without wait, or later"},
		{runs.ErrTooManyFollowers, http.StatusServiceUnavailable, CodeTooManyFollowers, "too many requests follow logs; ask without follow, or later"},
		{runs.ErrConflict, http.StatusConflict, CodeConflict, "the run's state does not allow that"},
		{runs.ErrNotFound, http.StatusNotFound, r.Singular + "_not_found", "there is no run of that id"},
		{runs.ErrNoLogs, http.StatusNotFound, CodeNoLog, "the run has no log, or none yet; follow=true waits for it"},
		{cloudcred.ErrForbidden, http.StatusBadGateway, CodeAuthServiceForbidden, "auth-service refuses this service's key, so no credential can be resolved; an operator has to renew the key"},
		{cloudcred.ErrUnavailable, http.StatusBadGateway, CodeAuthServiceUnavailable, "auth-service does not answer as it should, so the credential cannot be resolved; try again"},
		{runs.ErrKubernetes, http.StatusServiceUnavailable, CodeKubernetesUnavailable, "the Kubernetes API does not answer as it should; try again"},
		{runs.ErrDatabase, http.StatusServiceUnavailable, CodeDatabaseUnavailable, "the database does not answer as it should; try again"},
	}, err)
}

// Invalid is the answer to a request that breaks rules.
func Invalid(fields []api.FieldProblem) *api.Problem {
	p := &api.Problem{Status: http.StatusUnprocessableEntity, Code: httpapi.CodeInvalidRequest, Detail: "the request is not valid", Errors: fields}
	if len(fields) > 0 {
		p.Detail += ": " + fields[0].Location + ": " + fields[0].Message
	}
	if n := len(fields) - 1; n > 0 {
		p.Detail += fmt.Sprintf(" (and %d more)", n)
	}
	return p
}
