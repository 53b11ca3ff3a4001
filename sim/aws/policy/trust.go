package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kubeopera/platform/sim/aws/keyring"
)

// actionAssume is what a trust policy allows for all kinds of principals here.
const actionAssume = "sts:assumerole"

// Trust is a role's trust policy, in the small: who may assume the role, and
// with which external id. A statement with another condition than one on
// sts:ExternalId, or with a NotPrincipal or NotAction element, matches nobody.
type Trust struct {
	statements []trustStatement
}

type trustStatement struct {
	effect      string
	actions     []string
	principals  []string // of the kind AWS
	services    []string
	externalIDs []string // nil: none is asked for
	ignored     bool
}

// ParseTrust reads a trust policy's JSON.
func ParseTrust(text string) (Trust, error) {
	var raw struct {
		Statement oneOrMany[struct {
			Effect       string
			Action       oneOrMany[string]
			Principal    principals
			NotAction    json.RawMessage
			NotPrincipal json.RawMessage
			Condition    map[string]map[string]oneOrMany[string]
		}]
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return Trust{}, fmt.Errorf("read trust policy: %w", err)
	}
	var t Trust
	for _, s := range raw.Statement {
		out := trustStatement{
			effect: s.Effect, actions: s.Action, principals: s.Principal.AWS, services: s.Principal.Service,
			ignored: s.NotAction != nil || s.NotPrincipal != nil,
		}
		for operator, keys := range s.Condition {
			for key, values := range keys {
				if operator != "StringEquals" && operator != "StringLike" || !strings.EqualFold(key, "sts:ExternalId") {
					out.ignored = true
					continue
				}
				out.externalIDs = append([]string{}, values...)
			}
		}
		t.statements = append(t.statements, out)
	}
	return t, nil
}

// TrustFor is the policy of a role that the principals may assume, all of them
// with the external id unless it is empty.
func TrustFor(principalARNs []string, externalID string) (string, error) {
	statement := map[string]any{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"AWS": principalARNs}}
	if externalID != "" {
		statement["Condition"] = map[string]any{"StringEquals": map[string]any{"sts:ExternalId": externalID}}
	}
	text, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": []any{statement}})
	if err != nil {
		return "", fmt.Errorf("write trust policy: %w", err)
	}
	return string(text), nil
}

// AllowsService says whether an AWS service may assume the role.
func (t Trust) AllowsService(service string) bool {
	return t.allows("", func(s trustStatement) bool { return slices.Contains(s.services, service) })
}

// Allows says whether a principal, which may be a role's session, may assume
// the role with that external id; empty if it gave none.
func (t Trust) Allows(principalARN, externalID string) bool {
	account := strings.SplitN(principalARN, ":", 6)
	if len(account) != 6 {
		return false
	}
	return t.allows(externalID, func(s trustStatement) bool {
		return slices.ContainsFunc(s.principals, func(p string) bool {
			return p == "*" || p == account[4] || p == fmt.Sprintf("%s:%s:iam::%s:root", account[0], account[1], account[4]) ||
				p == principalARN || isRoleOf(p, principalARN)
		})
	})
}

// isRoleOf says whether a session is one of the role, whose path it lacks.
func isRoleOf(roleARN, sessionARN string) bool {
	canonical := keyring.CanonicalARN(sessionARN)
	if canonical == sessionARN {
		return false
	}
	prefix, name, _ := strings.Cut(canonical, ":role/")
	path, ok := strings.CutPrefix(roleARN, prefix+":role/")
	return ok && path[strings.LastIndexByte(path, '/')+1:] == name
}

func (t Trust) allows(externalID string, of func(trustStatement) bool) bool {
	allowed := false
	for _, s := range t.statements {
		if s.ignored || !of(s) || !slices.ContainsFunc(s.actions, func(a string) bool { return Match(strings.ToLower(a), actionAssume) }) ||
			s.externalIDs != nil && (externalID == "" || !slices.ContainsFunc(s.externalIDs, func(p string) bool { return Match(p, externalID) })) {
			continue
		}
		switch s.effect {
		case "Deny":
			return false
		case "Allow":
			allowed = true
		}
	}
	return allowed
}

// principals is the Principal element: "*", or lists by kind.
type principals struct{ AWS, Service oneOrMany[string] }

func (p *principals) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] != '{' {
		p.AWS = oneOrMany[string]{"*"}
		return nil
	}
	type plain principals
	if err := json.Unmarshal(data, (*plain)(p)); err != nil {
		return fmt.Errorf("principal: %w", err)
	}
	return nil
}
