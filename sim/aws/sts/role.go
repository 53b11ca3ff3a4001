package sts

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/policy"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// Role is a role of the account, as far as assuming it is concerned.
type Role struct {
	ARN         string
	Trust       policy.Trust
	MaxDuration time.Duration // of a session; 0: an hour, as IAM has it
}

// ErrNoRole is what Roles' errors wrap when there is no such role.
var ErrNoRole = errors.New("no such role")

// Roles knows the roles of the account.
type Roles interface {
	Role(ctx context.Context, arn string) (Role, error)
}

// Bounds of a session, in AWS's own words of the API reference.
const (
	minDuration     = 15 * time.Minute
	maxDuration     = 12 * time.Hour
	defaultDuration = time.Hour
	chainedDuration = time.Hour // of a role that a role's session assumes
)

var (
	rolePattern       = regexp.MustCompile(`^arn:aws[\w-]*:iam::\d{12}:role/[\x21-\x7e]+$`)
	sessionPattern    = regexp.MustCompile(`^[\w+=,.@-]{2,64}$`)
	externalIDPattern = regexp.MustCompile(`^[\w+=,.@:/-]{2,}$`)
)

const maxExternalID = 1224

type assumed struct {
	XMLName      xml.Name `xml:"AssumeRoleResponse"`
	Xmlns        string   `xml:"xmlns,attr"`
	KeyID        string   `xml:"AssumeRoleResult>Credentials>AccessKeyId"`
	Secret       string   `xml:"AssumeRoleResult>Credentials>SecretAccessKey"`
	SessionToken string   `xml:"AssumeRoleResult>Credentials>SessionToken"`
	Expiration   string   `xml:"AssumeRoleResult>Credentials>Expiration"`
	UserID       string   `xml:"AssumeRoleResult>AssumedRoleUser>AssumedRoleId"`
	ARN          string   `xml:"AssumeRoleResult>AssumedRoleUser>Arn"`
	RequestID    string   `xml:"ResponseMetadata>RequestId"`
}

// request is AssumeRole's input.
type request struct {
	roleARN, session, externalID string
	duration                     time.Duration
}

func parse(form url.Values) (request, error) {
	in := request{roleARN: form.Get("RoleArn"), session: form.Get("RoleSessionName"), externalID: form.Get("ExternalId"), duration: defaultDuration}
	if !rolePattern.MatchString(in.roleARN) {
		return in, invalid("%s is invalid", in.roleARN)
	}
	if !sessionPattern.MatchString(in.session) {
		return in, invalid(`1 validation error detected: Value '%s' at 'roleSessionName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\w+=,.@-]*`, in.session)
	}
	if in.externalID != "" && (len(in.externalID) > maxExternalID || !externalIDPattern.MatchString(in.externalID)) {
		return in, invalid(`1 validation error detected: Value at 'externalId' failed to satisfy constraint: Member must satisfy regular expression pattern: [\w+=,.@:\/-]*`)
	}
	if text := form.Get("DurationSeconds"); text != "" {
		seconds, err := strconv.Atoi(text)
		in.duration = time.Duration(seconds) * time.Second
		if err != nil || in.duration < minDuration || in.duration > maxDuration {
			return in, invalid("1 validation error detected: Value '%s' at 'durationSeconds' failed to satisfy constraint: Member must have value between %d and %d", text, int(minDuration.Seconds()), int(maxDuration.Seconds()))
		}
	}
	return in, nil
}

func (s *Service) assumeRole(r *http.Request, requestID string) (any, error) {
	in, err := parse(r.Form)
	if err != nil {
		return nil, err
	}
	caller := keyring.CallerFrom(r.Context()).PrincipalARN
	if err := s.authorize(r.Context(), caller, in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	lifetime, late := s.lifetime, s.lifetime/2
	s.mu.Unlock()
	if lifetime == 0 {
		lifetime = in.duration
	}
	told := s.cfg.Now().Add(lifetime).UTC().Truncate(time.Second) // as STS writes it
	key, err := Session(in.roleARN, in.session, told.Add(late))
	if err != nil {
		return nil, invalid("%s", err)
	}
	if err := s.cfg.Keys.Register(key); err != nil {
		return nil, err
	}
	return assumed{
		Xmlns: namespace, RequestID: requestID,
		KeyID: key.ID, Secret: key.Secret, SessionToken: key.SessionToken, Expiration: told.Format(time.RFC3339),
		UserID: UserID(key.PrincipalARN), ARN: key.PrincipalARN,
	}, nil
}

// authorize holds a request against the role. A role that is not there is
// refused as one that does not trust the caller.
func (s *Service) authorize(ctx context.Context, caller string, in request) error {
	denied := &protocol.Error{
		Status: http.StatusForbidden, Code: "AccessDenied",
		Message: fmt.Sprintf("User: %s is not authorized to perform: sts:AssumeRole on resource: %s", caller, in.roleARN),
	}
	if strings.HasSuffix(caller, ":root") {
		denied.Message = "Roles may not be assumed by root accounts."
		return denied
	}
	if s.cfg.Roles == nil {
		return denied
	}
	role, err := s.cfg.Roles.Role(ctx, in.roleARN)
	switch {
	case errors.Is(err, ErrNoRole):
		return denied
	case err != nil:
		return fmt.Errorf("find role %s: %w", in.roleARN, err)
	case role.ARN != in.roleARN || !role.Trust.Allows(caller, in.externalID):
		return denied
	}
	longest := role.MaxDuration
	if longest == 0 {
		longest = defaultDuration
	}
	switch {
	case in.duration > longest:
		return invalid("The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
	case in.duration > chainedDuration && strings.Contains(caller, ":assumed-role/"):
		return invalid("The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining.")
	}
	return nil
}

// Session makes a temporary key of a role, which nobody knows yet.
func Session(roleARN, name string, ends time.Time) (keyring.Key, error) {
	prefix, role, ok := strings.Cut(roleARN, ":role/")
	if !ok || !sessionPattern.MatchString(name) {
		return keyring.Key{}, fmt.Errorf("session: %q is no role's ARN, or %q no session's name", roleARN, name)
	}
	role = role[strings.LastIndexByte(role, '/')+1:] // a session does not tell its role's path
	return keyring.Key{
		ID:           "ASIA" + rand.Text()[:16],
		Secret:       (rand.Text() + rand.Text())[:40],
		SessionToken: token(),
		PrincipalARN: strings.Replace(prefix, ":iam:", ":sts:", 1) + ":assumed-role/" + role + "/" + name,
		ExpiresAt:    ends,
	}, nil
}

// token has the form and about the length of AWS's session tokens: tokens for
// EKS, which hold it, have an upper bound.
func token() string {
	random := make([]byte, 480)
	_, _ = rand.Read(random) // never fails
	return "IQoJb3JpZ2luX2Vj" + base64.StdEncoding.EncodeToString(random)
}
