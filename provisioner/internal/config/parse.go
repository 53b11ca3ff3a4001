package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/runcontract"
)

// The functions below set *to from a variable's text. Their errors say what is
// allowed and leave the text out: it may hold a secret, in the wrong place.

func address(to *string, text string) error {
	if _, port, err := net.SplitHostPort(text); err != nil || port == "" {
		return errors.New("must be host:port or :port")
	}
	*to = text
	return nil
}

func logLevel(to *slog.Level, text string) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(text)) {
		return errors.New("must be debug, info, warn or error")
	}
	return to.UnmarshalText([]byte(text))
}

func databaseURL(text string) error {
	scheme, _, _ := strings.Cut(text, ":")
	if !slices.Contains([]string{"sqlite", "postgres", "postgresql"}, scheme) {
		return errors.New("must be a URL of the scheme sqlite or postgres")
	}
	return nil
}

func webURL(to *string, text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return errors.New("must be an http or https URL without user and password")
	}
	*to = text
	return nil
}

// repositoryURL takes https only: whoever can change the modules on their way
// runs code with the customer's credential. It refuses a password, since the URL
// ends up in a Job's spec.
func repositoryURL(to *string, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return errors.New("must be an https URL")
	}
	if u.User != nil {
		return errors.New("must not hold a credential: name a Secret in MODULES_AUTH_SECRET")
	}
	*to = text
	return nil
}

var gitReference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)

func reference(to *string, text string) error {
	if !gitReference.MatchString(text) {
		return errors.New("must be a tag, branch or commit: letters, digits, '.', '_', '/', '-'")
	}
	*to = text
	return nil
}

var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

func name(to *string, text string) error {
	if len(text) > 253 || !objectName.MatchString(text) {
		return errors.New("must be the name of a Kubernetes object")
	}
	*to = text
	return nil
}

func list(to *[]string, text string) error {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			*to = append(*to, item)
		}
	}
	return nil
}

func count(to *int, text string, low, high int) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return fmt.Errorf("must be a whole number from %d to %d", low, high)
	}
	*to = n
	return nil
}

func oneOf(to *string, text string, words ...string) error {
	if !slices.Contains(words, text) {
		return fmt.Errorf("must be %s", strings.Join(words, " or "))
	}
	*to = text
	return nil
}

// duration is at least a second, which is what Kubernetes counts in.
func duration(to *time.Duration, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > 24*time.Hour || d%time.Second != 0 {
		return errors.New("must be whole seconds from 1s to 24h, such as 90m")
	}
	*to = d
	return nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environment is KEY=VALUE pairs between commas, or between line breaks where a
// value holds a comma. They end up in a ConfigMap, so credentials are refused.
func environment(to *map[string]string, text string) error {
	separator := ","
	if strings.Contains(text, "\n") {
		separator = "\n"
	}
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(text, separator) {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || !variable.MatchString(key) {
			return errors.New("must be KEY=VALUE pairs, separated by commas or, if a value holds a comma, by line breaks")
		}
		if slices.Contains([]string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "ACCESS_KEY", "SECRET_KEY", "TOKEN"}, strings.ToUpper(key)) {
			return errors.New("must not hold AWS keys: credentials come from auth-service")
		}
		if runcontract.ReservedEnv(key) {
			return fmt.Errorf("must not set %s, which is the runner's or Terraform's own", key)
		}
		if u, err := url.Parse(value); err == nil && u.Host != "" && u.User != nil {
			return errors.New("must not hold a URL with a user or password: the run's ConfigMap shows it")
		}
		if _, twice := pairs[key]; twice {
			return errors.New("must name each key once")
		}
		pairs[key] = value
	}
	*to = pairs
	return nil
}
