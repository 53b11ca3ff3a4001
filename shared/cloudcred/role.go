package cloudcred

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// AssumeRole is an IAM role and the access key that may assume it.
type AssumeRole struct {
	RoleARN     string
	ExternalID  Secret        // empty: the role's trust policy asks for none
	SessionName string        // empty: Files makes one of the environment's name
	Duration    time.Duration // of one session; zero: an hour
	Base        Credential    // of KindAccessKey: roles are not chained
}

// What STS's AssumeRole takes (API reference, AssumeRole, request parameters).
// The sets of bytes are AWS's own; none of them means anything in an INI file.
const (
	roleBytes        = lettersAndDigits + "_+=,.@-:/"
	externalIDBytes  = lettersAndDigits + "_+=,.@:/-"
	sessionNameBytes = lettersAndDigits + "_+=,.@-"

	maxRoleARN     = 2048
	minExternalID  = 2
	maxExternalID  = 1224
	minSessionName = 2
	maxSessionName = 64
	minDuration    = 15 * time.Minute
	maxDuration    = 12 * time.Hour
	// defaultDuration is STS's own default and the most that every role allows.
	defaultDuration = time.Hour
)

// rolePattern is partition, account, path and name.
var rolePattern = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/(?:[A-Za-z0-9_+=,.@-]+/)*[A-Za-z0-9_+=,.@-]{1,64}$`)

// Validate says what makes a role unfit for STS and for AWS's files, its base
// aside. It names the field only.
func (r AssumeRole) Validate() error {
	var errs []error
	if len(r.RoleARN) > maxRoleARN || !rolePattern.MatchString(r.RoleARN) {
		errs = append(errs, errors.New("role_arn is no ARN of an IAM role, such as arn:aws:iam::123456789012:role/name"))
	}
	check := func(field, value, allowed string, least, most int) {
		if value != "" && (len(value) < least || len(value) > most || strings.Trim(value, allowed) != "") {
			errs = append(errs, fmt.Errorf("%s has not %d to %d bytes or holds others than AWS allows in it", field, least, most))
		}
	}
	check("external_id", r.ExternalID.Reveal(), externalIDBytes, minExternalID, maxExternalID)
	check("session_name", r.SessionName, sessionNameBytes, minSessionName, maxSessionName)
	if r.Duration != 0 && (r.Duration < minDuration || r.Duration > maxDuration || r.Duration%time.Second != 0) {
		errs = append(errs, fmt.Errorf("duration_seconds is not %d to %d", int(minDuration.Seconds()), int(maxDuration.Seconds())))
	}
	return errors.Join(errs...)
}

// session is the name under which CloudTrail shows what a run did. It names the
// environment, not the run, so that it stays the same from run to run.
func (r AssumeRole) session(environment string) string {
	if r.SessionName != "" {
		return r.SessionName
	}
	name := "kubeopera-" + only(environment, sessionNameBytes)
	return name[:min(len(name), maxSessionName)]
}

// duration is always written, since tools differ in what they take for none: 15
// minutes for the Go SDK, an hour for the AWS CLI.
func (r AssumeRole) duration() time.Duration {
	if r.Duration > 0 {
		return r.Duration
	}
	return defaultDuration
}
