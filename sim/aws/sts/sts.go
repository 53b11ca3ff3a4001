// Package sts fakes the Security Token Service: who a caller is, and sessions of
// roles. The caller comes from the request's context, where the gateway put it
// after it had verified the signature.
//
// A session is a temporary key in the account's keyring. Once it has ended, the
// gateway refuses it as AWS does.
package sts

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

const namespace = "https://sts.amazonaws.com/doc/2011-06-15/"

// Config is what the fake needs.
type Config struct {
	Keys  *keyring.Ring    // required: sessions are registered there
	Roles Roles            // nil: there is no role to assume
	Now   func() time.Time // nil: time.Now
}

// Service answers STS calls.
type Service struct {
	cfg Config

	mu       sync.Mutex
	lifetime time.Duration // 0: sessions last as long as is asked for
}

// New returns the fake.
func New(cfg Config) (*Service, error) {
	if cfg.Keys == nil {
		return nil, errors.New("sts: keys are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg}, nil
}

// ShortenSessions lets sessions that are made from now on end after lifetime,
// whatever is asked for and less than AWS allows, so that a client has to renew
// its session soon; 0 is the end of that. As clients may use a session until the
// moment when it ends, it is refused only after half a lifetime more.
func (s *Service) ShortenSessions(lifetime time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lifetime = lifetime
}

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A GET, as in a presigned URL, has its parameters in the query; PostForm alone would miss them.
	err := r.ParseForm()
	var out any
	switch action := r.Form.Get("Action"); {
	case err != nil:
		err = &protocol.Error{Status: http.StatusBadRequest, Code: "MalformedQueryString", Message: "the parameters cannot be read"}
	case action == "GetCallerIdentity":
		arn := keyring.CallerFrom(r.Context()).PrincipalARN
		out = callerIdentity{Xmlns: namespace, ARN: arn, UserID: UserID(arn), Account: Account(arn), RequestID: requestID(w)}
	case action == "AssumeRole":
		out, err = s.assumeRole(r, requestID(w))
	default:
		err = &protocol.Error{Status: http.StatusBadRequest, Code: "InvalidAction", Message: "the simulator does not have the action " + action}
	}
	if err != nil {
		answer, ok := errors.AsType[*protocol.Error](err)
		if !ok {
			answer = &protocol.Error{Status: http.StatusInternalServerError, Code: "InternalFailure", Message: err.Error()}
		}
		protocol.WriteError(w, r, protocol.Query, requestID(w), answer)
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	_ = xml.NewEncoder(w).Encode(out) // the client is gone: there is nobody to tell
}

func requestID(w http.ResponseWriter) string { return w.Header().Get("X-Amzn-Requestid") }

type callerIdentity struct {
	XMLName   xml.Name `xml:"GetCallerIdentityResponse"`
	Xmlns     string   `xml:"xmlns,attr"`
	ARN       string   `xml:"GetCallerIdentityResult>Arn"`
	UserID    string   `xml:"GetCallerIdentityResult>UserId"`
	Account   string   `xml:"GetCallerIdentityResult>Account"`
	RequestID string   `xml:"ResponseMetadata>RequestId"`
}

// Account is the account id in an ARN.
func Account(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) < 6 {
		return ""
	}
	return parts[4]
}

// UserID is the unique id of a principal: AIDA… for a user, AROA…:session for
// an assumed role, the account for root. The same ARN always gives the same id.
func UserID(arn string) string {
	_, resource, _ := strings.Cut(arn, Account(arn)+":")
	switch {
	case strings.HasPrefix(resource, "assumed-role/"):
		session := resource[strings.LastIndexByte(resource, '/')+1:]
		return uniqueID("AROA", keyring.CanonicalARN(arn)) + ":" + session
	case strings.HasPrefix(resource, "role/"):
		return uniqueID("AROA", arn)
	case strings.HasPrefix(resource, "user/"):
		return uniqueID("AIDA", arn)
	}
	return Account(arn)
}

func uniqueID(prefix, arn string) string {
	sum := sha256.Sum256([]byte(arn))
	return prefix + base32.StdEncoding.EncodeToString(sum[:])[:17]
}

func invalid(format string, args ...any) error {
	return &protocol.Error{Status: http.StatusBadRequest, Code: "ValidationError", Message: fmt.Sprintf(format, args...)}
}
