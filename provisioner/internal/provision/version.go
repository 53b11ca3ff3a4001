package provision

import (
	"regexp"
	"strconv"
	"strings"
)

// oldestEKSMinor is the oldest 1.x that EKS still makes clusters of (end of
// extended support of 1.31: November 2026). There is no newest: EKS says so
// itself, and this service need not be released for each.
const oldestEKSMinor = 32

var (
	minorVersion = regexp.MustCompile(`^1\.([1-9][0-9])$`)
	patchVersion = regexp.MustCompile(`^1\.[0-9]{1,3}\.[0-9]{1,3}$`)
)

// eksVersion is major.minor. People write a leading v, so it is taken off.
func (c *checker) eksVersion(version string) string {
	const field = "kubernetes_version"
	version = strings.TrimPrefix(version, "v")
	m := minorVersion.FindStringSubmatch(version)
	switch {
	case version == "":
		c.addf(field, "is required: major.minor, such as 1.35")
	case patchVersion.MatchString(version):
		c.addf(field, "must be major.minor only, such as 1.35: EKS chooses the patch version itself")
	case m == nil:
		c.addf(field, "must be major.minor, such as 1.35")
	default:
		if minor, err := strconv.Atoi(m[1]); err != nil || minor < oldestEKSMinor {
			c.addf(field, "must be 1.%d or newer: EKS makes no clusters of older versions", oldestEKSMinor)
		}
	}
	return version
}
