package v1alpha1

import (
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A rule is what a text may be. All rules are lists of what is allowed; none lets
// through what a shell, a command line or a path would take for more than text.
type rule struct {
	ok      func(string) bool
	message string // what is right; it follows the field's path
}

func matches(pattern string) func(string) bool {
	return regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString
}

// The rules. Lengths are in bytes.
var (
	userRule = rule{matches(`[A-Za-z_][A-Za-z0-9._-]{0,31}`), "must be a login name: letters, digits, '.', '_' and '-', at most 32 characters"}

	hostPortRule = rule{isHostPort, "must be host or host:port, without a scheme; an IPv6 address with a port in brackets"}
	// Certificates and Kubernetes take no underscores.
	endpointHostRule = rule{isEndpointHost, "must be a DNS name or IP address"}
	endpointRule     = rule{isEndpoint, "must be host or host:port of a DNS name or IP address"}

	localPathRule    = rule{isLocalPath, "must be a path of letters, digits, spaces and any of ._~/@+,=:- that does not begin with '-'"}
	templateFileRule = rule{isTemplateFile, "must be a path below the environment file's directory, of letters, digits and any of ._/@+,=-: relative, without '..' and not beginning with '-'"}

	versionRule       = rule{matches(`[A-Za-z0-9][A-Za-z0-9.+:~_-]{0,127}`), "must be a version: letters, digits and any of .+:~_-"}
	kernelRule        = rule{matches(`[0-9][A-Za-z0-9.+~_-]{0,127}`), "must be a kernel version as uname -r prints it, such as 6.8.0-88-generic"}
	kubernetesRule    = rule{matches(`v?1\.[0-9]{1,3}\.[0-9]{1,3}`), "must be major.minor.patch of a release, such as v1.36.3"}
	microK8sRule      = rule{matches(`v?1\.[0-9]{1,3}(?:\.[0-9]{1,3})?`), "must be major.minor or major.minor.patch, such as v1.36"}
	crioRule          = rule{matches(`latest|(?:[0-9]{1,3}:)?v?[0-9]{1,3}\.[0-9]{1,3}(?:[.+~_-].*)?`), "must begin with major.minor for crio, whose repositories are by minor versions"}
	releaseRule       = rule{matches(`v?[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(?:-[A-Za-z0-9.]{1,32})?`), "must be major.minor.patch, such as v1.9.1"}
	driverBranchRule  = rule{matches(`[0-9]{3,4}(?:-[a-z]{1,16})?`), "must be a driver branch, such as 580"}
	gitRefRule        = rule{isGitRef, "must be a commit, tag or branch: letters, digits and any of ._/@+-"}
	commitRule        = rule{matches(`[0-9a-f]{7,64}`), "must be a commit's hex digits"}
	httpsRule         = rule{isHTTPS, "must be an https address without user name, of the usual characters"}
	checksumRule      = rule{matches(`sha256:[0-9A-Fa-f]{64}`), "must be sha256: and 64 hex digits"}
	featureGateRule   = rule{matches(`[A-Za-z][A-Za-z0-9]{0,127}=(?:true|false)`), "must be Name=true or Name=false"}
	envNameRule       = rule{matches(`[A-Za-z_][A-Za-z0-9_]{0,127}`), "must have names of letters, digits and '_', not beginning with a digit"}
	templateNameRule  = rule{matches(`[A-Za-z0-9][A-Za-z0-9._-]{0,62}`), "must be letters, digits, '.', '_' and '-', at most 63 characters"}
	keyNameRule       = rule{matches(`[A-Za-z0-9_][A-Za-z0-9 ._@+/:=-]{0,254}`), "must be the name of a key pair: letters, digits, spaces and any of ._@+/:=-"}
	instanceTypeRule  = rule{matches(`[a-z][a-z0-9-]{0,31}\.[a-z0-9-]{1,31}`), "must be an EC2 instance type, such as m5.xlarge"}
	regionRule        = rule{matches(`[a-z]{2,4}(?:-[a-z]{2,16}){1,3}-[0-9]{1,2}`), "must be an AWS region, such as eu-west-1"}
	imageIDRule       = rule{matches(`ami-[0-9a-f]{8,17}`), "must be an AMI id, such as ami-0123456789abcdef0"}
	instanceIDRule    = rule{matches(`m?i-[0-9a-f]{8,17}`), "must be an instance id, such as i-0123456789abcdef0"}
	ownerRule         = rule{matches(`[a-z0-9-]{1,64}`), "must be an AWS account number or alias"}
	plainTextRule     = rule{matches(`[A-Za-z0-9(][A-Za-z0-9 ._/:@+=,()-]{0,999}`), "must be plain text of letters, digits, spaces and any of ._/:@+=,()-"}
	networkRule       = rule{isNetwork, "must be a network, such as 192.0.2.0/24"}
	addressRule       = rule{isAddress, "must be an IP address"}
	urlPathRule       = rule{matches(`/[A-Za-z0-9._/-]{0,255}`), "must be a path, such as /healthz"}
	objectNameRule    = rule{noErrors(validation.IsDNS1123Subdomain), "must be a Kubernetes name: lower case letters, digits, '-' and '.', at most 253 characters"}
	namespaceRule     = rule{noErrors(validation.IsDNS1123Label), "must be a Kubernetes namespace: lower case letters, digits and '-', at most 63 characters"}
	labelKeyRule      = rule{noErrors(validation.IsQualifiedName), "must have keys of the form [domain/]name, the name of letters, digits, '.', '_' and '-', at most 63 characters, with a letter or digit at both ends"}
	labelValueRule    = rule{noErrors(validation.IsValidLabelValue), "must be letters, digits, '.', '_' and '-', at most 63 characters, with a letter or digit at both ends, or empty"}
	conditionTypeRule = rule{matches(`(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}`), "must be a condition type, such as Available"}
	reasonRule        = rule{matches(`[A-Za-z](?:[A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?`), "must be a reason in one word"}
	freeTextRule      = rule{isText, "must be text without NUL"}
)

// oneOf allows the given texts only.
func oneOf[T ~string](allowed ...T) rule {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	message := "must be " + names[0]
	if last := len(names) - 1; last > 0 {
		message = "must be " + strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return rule{func(s string) bool { return slices.Contains(names, s) }, message}
}

func noErrors(check func(string) []string) func(string) bool {
	return func(s string) bool { return len(check(s)) == 0 }
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func isAddress(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}

func isNetwork(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// isHost allows underscores, which host names in private networks have.
var isName = matches(`[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*`)

func isHost(s string) bool { return isAddress(s) || len(s) <= 253 && isName(s) }

func isHostPort(s string) bool {
	if isHost(s) {
		return true
	}
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return false
	}
	port, err := strconv.ParseUint(s[i+1:], 10, 16)
	if err != nil || port == 0 {
		return false
	}
	host := s[:i]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		return closed && strings.Contains(inner, ":") && isAddress(inner)
	}
	return !strings.Contains(host, ":") && isHost(host)
}

func isEndpointHost(s string) bool {
	return isAddress(s) || len(validation.IsDNS1123Subdomain(strings.ToLower(s))) == 0
}

func isEndpoint(s string) bool { return isHostPort(s) && !strings.Contains(s, "_") }

// isLocalPath is for files of the caller's machine. '..' is harmless there: who
// names the file could as well name it by an absolute path.
func isLocalPath(s string) bool {
	return isPath(s, " ._~/@+,=:-")
}

func isTemplateFile(s string) bool {
	if !isPath(s, "._/@+,=-") || path.IsAbs(s) || path.Clean(s) == "." {
		return false
	}
	return !slices.Contains(strings.Split(s, "/"), "..")
}

func isPath(s, signs string) bool {
	if s == "" || len(s) > 4095 || s[0] == '-' || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && !strings.ContainsRune(signs, r) {
			return false
		}
	}
	return true
}

var isRefText = matches(`[A-Za-z0-9_][A-Za-z0-9._/@+-]{0,254}`)

// isGitRef follows git check-ref-format for what its characters leave open.
func isGitRef(s string) bool {
	if !isRefText(s) || strings.Contains(s, "..") || strings.HasSuffix(s, ".") {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

var isURLText = matches(`https://[A-Za-z0-9._~:/?#@&=+,%\[\]-]+`)

func isHTTPS(s string) bool {
	if len(s) > 2048 || !isURLText(s) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && u.User == nil && isHostPort(u.Host)
}
