package sessionmanager

import (
	"context"
	"slices"
	"time"
)

// Rule is a rule of the protocol that clients have to keep.
type Rule string

// The rules.
const (
	RuleSignature   Rule = "signature"       // the upgrade request is signed, for ssmmessages
	RuleToken       Rule = "token"           // each link is opened with a token of its own
	RuleOpen        Rule = "open"            // the first message is the text frame that opens the channel
	RuleVersion     Rule = "client_version"  // at least 1.2.764.0
	RuleFrame       Rule = "frame"           // binary frames, laid out as package frame says
	RuleDigest      Rule = "digest"          // the digest is that of the payload
	RulePayload     Rule = "payload_length"  // at most 1024 bytes of data
	RuleSequence    Rule = "sequence"        // numbers go up by one; what is resent is the same
	RuleAcknowledge Rule = "acknowledgement" // only of what has arrived, and never of an acknowledgement
	RuleHandshake   Rule = "handshake"       // a response that answers each action
	RuleEarlyData   Rule = "early_data"      // no data before the handshake is complete: agents lose it
)

// Violation is something that a client did against the protocol.
type Violation struct {
	Time    time.Time `json:"time"`
	Session string    `json:"session"` // as the URL has it; there may be no such session
	Rule    Rule      `json:"rule"`
	Detail  string    `json:"detail"` // never has a token
}

// Violations lists what clients did against the protocol, oldest first.
func (s *Service) Violations() []Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// ClearViolations forgets them.
func (s *Service) ClearViolations() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = nil
}

// maxViolations bounds the record: a client may try for ever.
const maxViolations = 10_000

func (s *Service) violated(session string, rule Rule, detail string) {
	s.mu.Lock()
	if len(s.violations) < maxViolations {
		s.violations = append(s.violations, Violation{Time: time.Now(), Session: session, Rule: rule, Detail: detail})
	}
	s.mu.Unlock()
	s.cfg.Log.WarnContext(context.Background(), "session manager client breaks a rule", "session", session, "rule", rule, "detail", detail)
}
