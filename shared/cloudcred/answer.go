package cloudcred

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
}

// answer makes a credential or an error of what auth-service said. Nothing of
// the body may reach an error: it holds secrets, or what stands in their place.
func answer(id string, status int, body []byte) (Credential, error) {
	bad := func(what string) (Credential, error) {
		return Credential{}, fmt.Errorf("credential %s: %w: its answer is not what docs/api/auth-service.yaml says: %s", id, ErrUnavailable, what)
	}
	switch status {
	case http.StatusOK:
	case http.StatusNotFound:
		return Credential{}, fmt.Errorf("credential %s: %w: create it in auth-service, or correct the id", id, ErrNotFound)
	case http.StatusUnauthorized:
		return Credential{}, fmt.Errorf("credential %s: %w: the API key is not valid; replace the one in AUTH_SERVICE_API_KEY_FILE", id, ErrForbidden)
	case http.StatusForbidden:
		return Credential{}, fmt.Errorf("credential %s: %w: allow the API key of this service to read the credential", id, ErrForbidden)
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
	if w.ID != id {
		return bad("it is about another id")
	}
	if w.Kind == "" {
		return bad("it has no kind")
	}
	if w.Kind != KindAccessKey {
		return Credential{}, fmt.Errorf("credential %s: %w: only %s works yet; create a credential of that kind", id, ErrUnsupported, KindAccessKey)
	}
	if w.AccessKey == nil {
		return bad("it has no access_key")
	}
	key := AccessKey{ID: w.AccessKey.ID, Secret: w.AccessKey.Secret, SessionToken: w.AccessKey.SessionToken}
	if w.AccessKey.ExpiresAt != nil {
		key.ExpiresAt = w.AccessKey.ExpiresAt.UTC()
	}
	if err := key.Validate(); err != nil {
		return Credential{}, fmt.Errorf("credential %s: %w: %s; store it anew in auth-service", id, ErrInvalid, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return Credential{ID: w.ID, Name: w.Name, Kind: w.Kind, AccessKey: &key}, nil
}
