package script

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// Values are quoted whatever they are; those that get into command lines and files
// of other programs must besides look like what they are for.
var (
	variableName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	versionPattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+~:_-]*$`)
	numberPattern  = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	releasePattern = regexp.MustCompile(`^([0-9]+)\.([0-9]+)\.([0-9]+)$`)
	hostPattern    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	sumPattern     = regexp.MustCompile(`^sha256:[0-9a-fA-F]{64}$`)
	gatePattern    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*=(true|false)$`)
)

func checkVersion(what, version string) error {
	if version != "" && !versionPattern.MatchString(version) {
		return fmt.Errorf("%s: %q is no version", what, version)
	}
	return nil
}

// packageVersion is a wanted version as fits in host.sh reads it: "latest" is any,
// X and X.Y any of them; a leading v is not part of packages' versions.
func packageVersion(what, version string) (string, error) {
	if version == "latest" {
		return "", nil
	}
	version = strings.TrimPrefix(version, "v")
	if numberPattern.MatchString(version) {
		return version + ".*", nil
	}
	return version, checkVersion(what, version)
}

// checkHost takes an IP address or a DNS name in lower case.
func checkHost(what, host string) error {
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if len(host) > 253 || !hostPattern.MatchString(host) {
		return fmt.Errorf("%s: %q is neither an IP address nor a host name", what, host)
	}
	return nil
}

func checkURL(what, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsFunc(text, isSpace) {
		return fmt.Errorf("%s: %q is no https URL", what, text)
	}
	return nil
}

func isSpace(r rune) bool { return r <= ' ' || r == 0x7f }

// checkSum returns a sum's hexadecimal digits, in lower case.
func checkSum(what, sum string) (string, error) {
	if !sumPattern.MatchString(sum) {
		return "", fmt.Errorf("%s: %q is not of the form sha256:<64 hexadecimal digits>", what, sum)
	}
	return strings.ToLower(strings.TrimPrefix(sum, "sha256:")), nil
}
