package cloudcred

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// wire is the answer of auth-service, by docs/api/auth-service.yaml. Fields that
// are not known are ignored, so that auth-service can add some.
type wire struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Kind      Kind   `json:"kind"`
	AccessKey *struct {
		ID           string     `json:"access_key_id"`
		Secret       Secret     `json:"secret_access_key"`
		SessionToken Secret     `json:"session_token"`
		ExpiresAt    *time.Time `json:"expires_at"`
	} `json:"access_key"`
	AssumeRole *struct {
		RoleARN         string `json:"role_arn"`
		ExternalID      Secret `json:"external_id"`
		SessionName     string `json:"session_name"`
		DurationSeconds int32  `json:"duration_seconds"`
		Base            string `json:"base"`
	} `json:"assume_role"`
	GitToken *struct {
		Username string `json:"username"`
		Token    Secret `json:"token"`
	} `json:"git_token"`
	GitSSHKey *struct {
		PrivateKey Secret `json:"private_key"`
		KnownHosts string `json:"known_hosts"`
	} `json:"git_ssh_key"`
	SSHKey *struct {
		PrivateKey  Secret `json:"private_key"`
		Passphrase  Secret `json:"passphrase"`
		Certificate string `json:"certificate"`
	} `json:"ssh_key"`
}

// InvalidError is a stored credential that cannot be used as it is. It matches
// ErrInvalid.
type InvalidError struct {
	ID     string // of the credential
	Reason string // what is wrong with it, without secrets
}

// Error names the credential and what is wrong.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("credential %s: %v: %s; store it anew in auth-service", e.ID, ErrInvalid, e.Reason)
}

// Is makes every InvalidError an ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// idPattern is a UUID in lower case.
var idPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// answer reads what auth-service said. Nothing of the body may reach an error: it
// holds secrets, or what stands in their place.
func answer(id string, status int, body []byte) (wire, error) {
	bad := func(what string) (wire, error) {
		return wire{}, fmt.Errorf("credential %s: %w: its answer is not what docs/api/auth-service.yaml says: %s", id, ErrUnavailable, what)
	}
	switch status {
	case http.StatusOK:
	case http.StatusNotFound:
		return wire{}, fmt.Errorf("credential %s: %w: create it in auth-service, or correct the id", id, ErrNotFound)
	case http.StatusUnauthorized:
		return wire{}, fmt.Errorf("credential %s: %w: the API key is not valid; replace the one in AUTH_SERVICE_API_KEY_FILE", id, ErrForbidden)
	case http.StatusForbidden:
		return wire{}, fmt.Errorf("credential %s: %w: allow the API key of this service to read the credential", id, ErrForbidden)
	default:
		return bad(fmt.Sprintf("status %d", status))
	}
	if len(body) > maxAnswer {
		return bad(fmt.Sprintf("longer than %d bytes", maxAnswer))
	}
	var w wire
	if err := json.Unmarshal(body, &w); err != nil {
		if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
			return bad("field " + t.Field + " has another type")
		}
		return bad("not JSON, or a time that is none")
	}
	switch {
	case w.ID != id:
		return bad("it is about another id")
	case w.Kind == "":
		return bad("it has no kind")
	case w.Kind == KindAccessKey && w.AccessKey == nil, w.Kind == KindAssumeRole && w.AssumeRole == nil,
		w.Kind == KindGitToken && w.GitToken == nil, w.Kind == KindGitSSHKey && w.GitSSHKey == nil,
		w.Kind == KindSSHKey && w.SSHKey == nil:
		return bad("it has no " + string(w.Kind))
	}
	return w, nil
}

// credential is the answer, validated; the base of a role has its id only.
func (w wire) credential() (Credential, error) {
	c := Credential{ID: w.ID, Name: w.Name, Kind: w.Kind}
	var err error
	switch w.Kind {
	case KindAccessKey:
		c.AccessKey = &AccessKey{ID: w.AccessKey.ID, Secret: w.AccessKey.Secret, SessionToken: w.AccessKey.SessionToken}
		if w.AccessKey.ExpiresAt != nil {
			c.AccessKey.ExpiresAt = w.AccessKey.ExpiresAt.UTC()
		}
		err = c.AccessKey.Validate()
	case KindAssumeRole:
		c.AssumeRole = &AssumeRole{
			RoleARN: w.AssumeRole.RoleARN, ExternalID: w.AssumeRole.ExternalID, SessionName: w.AssumeRole.SessionName,
			Duration: time.Duration(w.AssumeRole.DurationSeconds) * time.Second, Base: Credential{ID: w.AssumeRole.Base},
		}
		err = c.AssumeRole.Validate()
		if base := w.AssumeRole.Base; !idPattern.MatchString(base) || base == w.ID {
			err = errors.Join(err, errors.New("base is not the id of another credential"))
		}
	default:
		return Credential{}, fmt.Errorf("credential %s: %w: it is neither %s nor %s; name another credential", w.ID, ErrUnsupported, KindAccessKey, KindAssumeRole)
	}
	if err != nil {
		return Credential{}, &InvalidError{ID: w.ID, Reason: strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return c, nil
}
