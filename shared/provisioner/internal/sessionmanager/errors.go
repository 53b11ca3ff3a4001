package sessionmanager

import (
	"fmt"
	"time"
)

// TargetNotConnectedError is a StartSession that the service refused since the
// instance's agent has no connection to it.
type TargetNotConnectedError struct {
	Target string // instance id
	Detail string // what DescribeInstanceInformation knew of the instance, "" for nothing
	Err    error
}

func (e *TargetNotConnectedError) Error() string {
	detail := e.Detail
	if detail == "" {
		detail = notRegistered
	}
	return fmt.Sprintf("%s is not connected to Session Manager: %s", e.Target, detail)
}

// Unwrap is the service's error.
func (e *TargetNotConnectedError) Unwrap() error { return e.Err }

const notRegistered = "it is not registered with Systems Manager in this account and region; " +
	"see that it runs the SSM agent, that its instance profile has the policy AmazonSSMManagedInstanceCore, " +
	"and that it reaches the endpoints ssm and ssmmessages"

// NotOnlineError is an instance whose agent did not come online in time.
type NotOnlineError struct {
	Target   string
	Status   string        // ping status, such as ConnectionLost; "" for an instance that is not registered
	LastPing time.Time     // when the agent was last heard of, zero for never
	Waited   time.Duration // how long
}

func (e *NotOnlineError) Error() string {
	return fmt.Sprintf("%s is not online in Systems Manager after %v: %s", e.Target, e.Waited.Round(time.Second), offline(e.Status, e.LastPing))
}

// offline says what a ping status means and what to do about it.
func offline(status string, lastPing time.Time) string {
	if status == "" {
		return notRegistered
	}
	heard := "it has never been heard of"
	if !lastPing.IsZero() {
		heard = "it was last heard of at " + lastPing.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("its SSM agent is offline (%s), %s; see that the instance and the agent run and that it reaches the endpoints ssm and ssmmessages", status, heard)
}

// AccessDeniedError is a call that the caller's identity may not make.
type AccessDeniedError struct {
	Target string
	Action string // as IAM names it, such as ssm:StartSession
	Err    error
}

// Permanent says that trying again is of no use.
func (e *AccessDeniedError) Permanent() bool { return true }

func (e *AccessDeniedError) Error() string {
	hint := ""
	if e.Action == "ssm:StartSession" {
		hint = " on the instance and on the document " + document
	}
	return fmt.Sprintf("connect to %s: access denied: the caller needs %s%s: %v", e.Target, e.Action, hint, e.Err)
}

// Unwrap is the service's error.
func (e *AccessDeniedError) Unwrap() error { return e.Err }

// EncryptionRequiredError is a session that the account's preferences want
// encrypted with a KMS key.
type EncryptionRequiredError struct {
	KeyID string // as the agent named it, "" if it did not
}

// Permanent says that trying again is of no use.
func (e *EncryptionRequiredError) Permanent() bool { return true }

func (e *EncryptionRequiredError) Error() string {
	key := ""
	if e.KeyID != "" {
		key = " with key " + e.KeyID
	}
	return "session must be encrypted" + key + ", which is not supported: " +
		"the account's Session Manager preferences (document SSM-SessionManagerRunShell, kmsKeyId) enable KMS encryption; " +
		"disable it, SSH encrypts the connection itself"
}

// PortError is an agent that could not connect to the port on its instance.
type PortError struct {
	Target string
	Port   int
}

func (e *PortError) Error() string {
	return fmt.Sprintf("agent of %s cannot connect to port %d: nothing listens on it there", e.Target, e.Port)
}

// ClosedError is a session that the service or the agent has ended.
type ClosedError struct {
	Session string
	Reason  string // the service's words, "" for none: the ordinary end of a connection
	// Truncated says that data before the end is missing.
	Truncated bool
}

func (e *ClosedError) Error() string {
	text := "session " + e.Session + " has been closed by the service"
	if e.Truncated {
		text += " with data missing"
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// LostError is a session whose connection to the service broke and could not be
// restored.
type LostError struct {
	Session string
	After   time.Duration // of trying
	Err     error         // of the last attempt
}

func (e *LostError) Error() string {
	return fmt.Sprintf("session %s was lost and could not be resumed in %v: %v", e.Session, e.After.Round(time.Second), e.Err)
}

// Unwrap is the error of the last attempt.
func (e *LostError) Unwrap() error { return e.Err }

// ExpiredError is a session that ended by Config.IdleTimeout or
// Config.MaxDuration.
type ExpiredError struct {
	Session string
	Idle    bool
	Limit   time.Duration
}

func (e *ExpiredError) Error() string {
	if e.Idle {
		return fmt.Sprintf("session %s has been idle for %v", e.Session, e.Limit)
	}
	return fmt.Sprintf("session %s has lasted %v", e.Session, e.Limit)
}
