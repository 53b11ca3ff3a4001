package ssm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// Access is one thing that a call does to one resource.
type Access struct {
	PrincipalARN string
	Action       string // "ssm:GetParameter"
	Resource     string // ARN of a parameter or a path, or "*"
}

// Authorizer decides about accesses.
type Authorizer interface {
	// Authorize says whether a is allowed; an error is no decision.
	Authorize(ctx context.Context, a Access) (bool, error)
}

// Config is what the fake needs.
type Config struct {
	AccountID  string           // required
	Fallback   http.Handler     // nil: there are no public parameters and no other operations
	Authorizer Authorizer       // nil: everybody may do everything
	Limits     Limits           // zero: AWS's
	Now        func() time.Time // nil: time.Now
}

// Service answers calls of Parameter Store.
type Service struct {
	cfg        Config
	operations map[string]operation
	throttle   throttle

	mu      sync.Mutex
	regions map[string]map[string]*parameter // by region and name
}

// operation answers one call.
type operation func(call, []byte) (any, error)

// New returns a fake without parameters.
func New(cfg Config) (*Service, error) {
	if cfg.AccountID == "" {
		return nil, errors.New("ssm: account id is required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{cfg: cfg, regions: map[string]map[string]*parameter{}}
	s.throttle.set(cfg.Limits)
	s.operations = map[string]operation{
		"PutParameter":           handle(s.putParameter),
		"GetParameter":           handle(s.getParameter),
		"GetParameters":          handle(s.getParameters),
		"GetParametersByPath":    handle(s.getParametersByPath),
		"GetParameterHistory":    handle(s.getParameterHistory),
		"DescribeParameters":     handle(s.describeParameters),
		"DeleteParameter":        handle(s.deleteParameter),
		"DeleteParameters":       handle(s.deleteParameters),
		"LabelParameterVersion":  handle(s.labelParameterVersion),
		"AddTagsToResource":      handle(s.addTags),
		"ListTagsForResource":    handle(s.listTags),
		"RemoveTagsFromResource": handle(s.removeTags),
	}
	return s, nil
}

// call is a request with what all operations need.
type call struct {
	*http.Request

	operation string
	caller    keyring.Caller
	body      []byte
}

// handle gives an operation its input.
func handle[In any](serve func(call, In) (any, error)) operation {
	return func(c call, body []byte) (any, error) {
		var in In
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, failure("SerializationException", "%v", err)
		}
		return serve(c, in)
	}
}

// errElsewhere is how an operation says that its call is for the fallback.
var errElsewhere = errors.New("not for Parameter Store")

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := r.Header.Get("X-Amz-Target")
	c := call{Request: r, operation: target[strings.LastIndexByte(target, '.')+1:], caller: keyring.CallerFrom(r.Context())}
	var err error
	if c.body, err = io.ReadAll(r.Body); err != nil {
		writeError(w, r, failure("SerializationException", "%v", err))
		return
	}
	out, err := s.answer(c)
	switch {
	case errors.Is(err, errElsewhere) && s.cfg.Fallback != nil:
		s.cfg.Fallback.ServeHTTP(w, c.with(c.body))
	case errors.Is(err, errElsewhere):
		writeError(w, r, failure("UnknownOperationException", "the simulator does not have %s", c.operation))
	case err != nil:
		writeError(w, r, err)
	default:
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_ = json.NewEncoder(w).Encode(out) // the client is gone: there is nobody to tell
	}
}

func (s *Service) answer(c call) (any, error) {
	serve, ok := s.operations[c.operation]
	if !ok {
		if strings.Contains(c.operation, "Parameter") {
			return nil, failure("UnknownOperationException", "the simulator does not have %s", c.operation)
		}
		return nil, errElsewhere
	}
	if !s.throttle.take(c.caller.Region, c.operation, s.cfg.Now()) {
		return nil, failure("ThrottlingException", "Rate exceeded")
	}
	return serve(c, c.body)
}

// authorize asks whether the caller may do the call's operation to all of these
// parameters. One that is refused refuses the call.
func (s *Service) authorize(c call, names ...string) error {
	return s.authorizeAction(c, "ssm:"+c.operation, names...)
}

func (s *Service) authorizeAction(c call, action string, names ...string) error {
	if s.cfg.Authorizer == nil {
		return nil
	}
	for _, name := range names {
		resource := "*"
		if name != "*" {
			resource = s.arn(c.caller.Region, name)
		}
		allowed, err := s.cfg.Authorizer.Authorize(c.Context(), Access{PrincipalARN: c.caller.PrincipalARN, Action: action, Resource: resource})
		if err != nil {
			return fmt.Errorf("authorize %s: %w", action, err)
		}
		if !allowed {
			return failure("AccessDeniedException",
				"User: %s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %s action",
				c.caller.PrincipalARN, action, resource, action)
		}
	}
	return nil
}

// Resource names the parameters, or the session and its target, that a request is
// about, for faults.
func (*Service) Resource(body []byte) string {
	var in struct {
		Name, Path, ResourceID, Target, SessionID string
		Names                                     []string
	}
	if json.Unmarshal(body, &in) != nil {
		return ""
	}
	return strings.Join(append(in.Names, in.Name+in.Path+in.ResourceID+in.Target+in.SessionID), " ")
}

// failure is an error of the JSON protocol, in which they all have status 400.
func failure(code, format string, args ...any) error {
	return &protocol.Error{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return failure("ValidationException", format, args...)
}

// constraint is how AWS says that a member of a request has a wrong value. The
// value is left out, since it may be a secret.
func constraint(member, rule string) error {
	return invalid("1 validation error detected: Value at '%s' failed to satisfy constraint: %s", member, rule)
}

// writeError maps what is no AWS error to a 500.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	apiErr, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		apiErr = &protocol.Error{Status: http.StatusInternalServerError, Code: "InternalServerError", Message: err.Error()}
	}
	protocol.WriteError(w, r, protocol.JSON, w.Header().Get("X-Amzn-Requestid"), apiErr)
}

// timestamp is a time as the JSON protocol has it: seconds since 1970.
type timestamp time.Time

func (t timestamp) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", float64(time.Time(t).UnixMilli())/1000), nil
}
