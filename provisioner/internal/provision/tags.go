package provision

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// AWS's rules for tags, the strictest of all services that we tag (IAM, ELB, S3).
const (
	maxTags        = 50
	maxTagKey      = 128
	maxTagValue    = 256
	tagRule        = "letters of any script, digits, spaces and _ . : / = + - @"
	tagPunctuation = "_.:/=+-@ "
)

// maxOwnTags is the most tags that one resource has beside the request's. A node
// has Name, the environment's own, and five that EKS puts on it (eks:cluster-name,
// eks:nodegroup-name, and three of Kubernetes and its autoscaler); a subnet has
// fewer. Some room is left for tags to come.
const maxOwnTags = 10

// reservedTagKey matches the keys, in lower case, that others than the request's
// author set. Kubernetes has tags below subdomains of its two domains as well.
var reservedTagKey = regexp.MustCompile(`^(name$|eks:|kubeopera\.io/|([a-z0-9-]+\.)*(kubernetes|k8s)\.io/)`)

// tags are the request's; the modules add their own beside them. Keys and values
// are stored in Unicode's normal form C, in which Terraform writes them anyway.
func (c *checker) tags(tags map[string]string) map[string]string {
	if len(tags) > maxTags-maxOwnTags {
		c.addf("tags", "must be at most %d: AWS allows %d tags of a resource, and %d are kept for the platform's own", maxTags-maxOwnTags, maxTags, maxOwnTags)
	}
	normal := make(map[string]string, len(tags))
	seen := map[string]bool{}
	for _, given := range slices.Sorted(maps.Keys(tags)) {
		key, value := norm.NFC.String(given), norm.NFC.String(tags[given])
		if problem := tagKeyProblem(key); problem != "" {
			c.addf("tags", "%s", problem)
			continue
		}
		folded := strings.ToLower(key)
		if seen[folded] {
			c.addf("tags", "must not have two keys that differ in case only: IAM takes them for one")
		}
		seen[folded] = true
		if utf8.RuneCountInString(value) > maxTagValue || !tagText(value) {
			c.addf("tags."+key, "must be at most %d %s, with no space at either end", maxTagValue, tagRule)
		}
		normal[key] = value
	}
	return normal
}

func tagKeyProblem(key string) string {
	folded := strings.ToLower(key)
	switch {
	case key == "" || utf8.RuneCountInString(key) > maxTagKey || !tagText(key):
		return "keys must be 1 to 128 " + tagRule + ", with no space at either end"
	case strings.HasPrefix(folded, "aws:"):
		return "keys must not begin with aws: (in any case), which AWS reserves"
	case reservedTagKey.MatchString(folded):
		return "keys must not be Name, nor begin with eks:, kubeopera.io/, kubernetes.io/ or k8s.io/: EKS, this platform and Kubernetes set those"
	}
	return ""
}

// tagText says whether AWS takes s as text of a tag; ELB takes no space at its ends.
func tagText(s string) bool {
	if !utf8.ValidString(s) || strings.TrimSpace(s) != s {
		return false
	}
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune(tagPunctuation, r) {
			return false
		}
	}
	return true
}
