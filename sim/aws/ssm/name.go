package ssm

import (
	"regexp"
	"strconv"
	"strings"
)

const (
	maxNameLength = 1011 // of 2048 characters that the ARN may have
	maxLevels     = 15
)

var (
	namePattern  = regexp.MustCompile(`^(?:[\w.-]+|(?:/[\w.-]+)+)$`)
	labelPattern = regexp.MustCompile(`^[A-Za-z_.-][\w.-]{0,99}$`)
)

// checkName says why a parameter cannot be created under a name.
func checkName(name string) error {
	first := strings.ToLower(strings.TrimPrefix(name, "/"))
	reserved := strings.HasPrefix(first, "aws") || strings.HasPrefix(first, "ssm")
	switch {
	case name == "":
		return constraint("name", "Member must have length greater than or equal to 1")
	case len(name) > maxNameLength:
		return invalid("Parameter name must not be longer than %d characters.", maxNameLength)
	case strings.HasPrefix(name, "/aws/"), strings.HasPrefix(name, "/ssm/"):
		return failure("AccessDeniedException", "No access to reserved parameter name: %s.", name)
	case strings.Contains(name, "/") && !strings.HasPrefix(name, "/"):
		return invalid("Parameter name must be a fully qualified name.")
	case reserved || !namePattern.MatchString(name):
		return invalid(`Parameter name: can't be prefixed with "ssm" or "aws" (case-insensitive). If formed as a path, it can consist of sub-paths divided by slash symbol; each sub-path can be formed as a mix of letters, numbers and the following 3 symbols .-_`)
	case strings.Count(name, "/") > maxLevels:
		return failure("HierarchyLevelLimitExceededException",
			"Parameter name %s exceeds the maximum of %d levels in a hierarchy.", name, maxLevels)
	}
	return nil
}

// reference is how a call names a parameter that exists: by name or ARN, with a
// version or a label if it is not the latest value that is wanted.
type reference struct {
	region, account string // of an ARN; empty: the caller's
	name            string
	version         int64  // 0: not given
	label           string // empty: not given
}

// parseReference reads what GetParameter and the like take as a name.
func parseReference(s string) (reference, error) {
	var r reference
	rest := s
	if strings.HasPrefix(s, "arn:") {
		parts := strings.SplitN(s, ":", 6)
		if len(parts) < 6 || parts[2] != "ssm" || parts[3] == "" || parts[4] == "" || !strings.HasPrefix(parts[5], "parameter/") {
			return reference{}, invalid("Invalid parameter ARN.")
		}
		r.region, r.account = parts[3], parts[4]
		rest = strings.TrimPrefix(parts[5], "parameter")
		// An ARN does not tell whether a name of one level has its slash.
		if strings.Count(rest, "/") == 1 {
			rest = rest[1:]
		}
	}
	name, selector, selected := strings.Cut(rest, ":")
	if !namePattern.MatchString(name) || len(name) > maxNameLength || strings.Count(name, "/") > maxLevels {
		return reference{}, invalid("Invalid parameter name. Please use correct syntax for referencing a version/label  <name>:<version/label>")
	}
	r.name = name
	if !selected {
		return r, nil
	}
	if version, err := strconv.ParseInt(selector, 10, 64); err == nil && version > 0 && strconv.FormatInt(version, 10) == selector {
		r.version = version
		return r, nil
	}
	if !labelPattern.MatchString(selector) {
		return reference{}, invalid("Invalid parameter name. Please use correct syntax for referencing a version/label  <name>:<version/label>")
	}
	r.label = selector
	return r, nil
}

// selector is the part of a reference after the name, as answers repeat it.
func (r reference) selector() string {
	switch {
	case r.version != 0:
		return ":" + strconv.FormatInt(r.version, 10)
	case r.label != "":
		return ":" + r.label
	}
	return ""
}

func (r reference) public() bool { return strings.HasPrefix(r.name, "/aws/") }

// arn is a parameter's ARN: the slash that a hierarchy begins with is not doubled.
func (s *Service) arn(region, name string) string {
	return "arn:aws:ssm:" + region + ":" + s.cfg.AccountID + ":parameter/" + strings.TrimPrefix(name, "/")
}
