// Package policy evaluates identity-based IAM policies, in the small: effects,
// actions and resources with wildcards. A statement with a condition or a
// policy variable, which are not understood here, matches nothing; nor does a
// statement with a NotAction or NotResource element.
//
// A permission that hangs on a condition is thus refused where AWS might grant
// it, and a denial that hangs on one is not heard.
package policy

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Document is a policy as IAM keeps it.
type Document struct {
	Statements []Statement
}

// Statement is one statement of a policy.
type Statement struct {
	Effect    string
	Actions   []string
	Resources []string
	ignored   bool // it has elements that are not understood
}

// Parse reads a policy's JSON.
func Parse(text string) (Document, error) {
	var raw struct {
		Statement oneOrMany[struct {
			Effect      string
			Action      oneOrMany[string]
			Resource    oneOrMany[string]
			NotAction   json.RawMessage
			NotResource json.RawMessage
			Condition   map[string]json.RawMessage
		}]
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return Document{}, fmt.Errorf("read policy: %w", err)
	}
	var d Document
	for _, s := range raw.Statement {
		d.Statements = append(d.Statements, Statement{
			Effect: s.Effect, Actions: s.Action, Resources: s.Resource,
			ignored: s.NotAction != nil || s.NotResource != nil || len(s.Condition) > 0,
		})
	}
	return d, nil
}

// Allows says whether policies together allow an action on a resource: one has
// to allow it and none may deny it.
func Allows(documents []Document, action, resource string) bool {
	allowed := false
	for _, d := range documents {
		for _, s := range d.Statements {
			if !s.matches(action, resource) {
				continue
			}
			switch s.Effect {
			case "Deny":
				return false
			case "Allow":
				allowed = true
			}
		}
	}
	return allowed
}

func (s Statement) matches(action, resource string) bool {
	if s.ignored {
		return false
	}
	for _, a := range s.Actions {
		// Actions are the same in either case.
		if !Match(strings.ToLower(a), strings.ToLower(action)) {
			continue
		}
		for _, r := range s.Resources {
			if !strings.Contains(r, "${") && Match(r, resource) {
				return true
			}
		}
	}
	return false
}

// Match says whether text has a pattern's form: * is any text, ? any character.
func Match(pattern, text string) bool {
	// Where to go on if what follows the last star does not fit: one character later.
	star, from := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// oneOrMany is how IAM writes lists.
type oneOrMany[T any] []T

func (o *oneOrMany[T]) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		var many []T
		if err := json.Unmarshal(data, &many); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		*o = many
		return nil
	}
	var one T
	if err := json.Unmarshal(data, &one); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	*o = oneOrMany[T]{one}
	return nil
}
