package envconfig

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

	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
)

// The functions below set *to from a variable's text. Their errors say what is
// allowed and leave the text out: it may hold a secret, in the wrong place.

// Text is any text.
func Text(to *string, text string) error {
	*to = text
	return nil
}

// Address is host:port or :port.
func Address(to *string, text string) error {
	if _, port, err := net.SplitHostPort(text); err != nil || port == "" {
		return errors.New("must be host:port or :port")
	}
	*to = text
	return nil
}

// LogLevel is debug, info, warn or error.
func LogLevel(to *slog.Level, text string) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(text)) {
		return errors.New("must be debug, info, warn or error")
	}
	return to.UnmarshalText([]byte(text))
}

// DatabaseURL is a URL of the scheme sqlite or postgres; it may hold a password.
func DatabaseURL(to *redact.Secret, text string) error {
	scheme, _, _ := strings.Cut(text, ":")
	if !slices.Contains([]string{"sqlite", "postgres", "postgresql"}, scheme) {
		return errors.New("must be a URL of the scheme sqlite or postgres")
	}
	*to = redact.Secret(text)
	return nil
}

// WebURL is an http or https URL without user and password.
func WebURL(to *string, text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return errors.New("must be an http or https URL without user and password")
	}
	*to = text
	return nil
}

var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// Name is the name of a Kubernetes object.
func Name(to *string, text string) error {
	if len(text) > 253 || !objectName.MatchString(text) {
		return errors.New("must be the name of a Kubernetes object")
	}
	*to = text
	return nil
}

// List is words between commas.
func List(to *[]string, text string) error {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			*to = append(*to, item)
		}
	}
	return nil
}

// Count is a whole number from low to high.
func Count(to *int, text string, low, high int) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return fmt.Errorf("must be a whole number from %d to %d", low, high)
	}
	*to = n
	return nil
}

// OneOf is one of the words.
func OneOf(to *string, text string, words ...string) error {
	if !slices.Contains(words, text) {
		return fmt.Errorf("must be %s", strings.Join(words, " or "))
	}
	*to = text
	return nil
}

// Duration is at least a second, which is what Kubernetes counts in.
func Duration(to *time.Duration, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > 24*time.Hour || d%time.Second != 0 {
		return errors.New("must be whole seconds from 1s to 24h, such as 90m")
	}
	*to = d
	return nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Environment is KEY=VALUE pairs between commas, or between line breaks where a
// value holds a comma. They end up in a ConfigMap, so credentials are refused.
func Environment(to *map[string]string, text string) error {
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
			return fmt.Errorf("must not set %s: the runner sets it itself, or it would replace a run's credential or programs", key)
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
