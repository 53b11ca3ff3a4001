package ssm

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"slices"
	"time"
)

// The types, tiers and defaults of parameters.
const (
	typeString       = "String"
	typeStringList   = "StringList"
	typeSecureString = "SecureString"

	tierStandard    = "Standard"
	tierAdvanced    = "Advanced"
	tierIntelligent = "Intelligent-Tiering"

	dataTypeText       = "text"
	defaultKey         = "alias/aws/ssm"
	maxVersions        = 100
	maxStandard        = 4096 // bytes
	maxAdvanced        = 8192
	maxDescription     = 1024
	maxPattern         = 1024
	maxTags            = 50
	maxLabelsByVersion = 10
)

// parameter is one name with its last versions, oldest first. It has at least one.
type parameter struct {
	name     string
	typ      string
	dataType string
	versions []*version
	tags     map[string]string
}

// version is what one PutParameter left.
type version struct {
	number      int64
	value       string
	description string
	pattern     string
	keyID       string // of a SecureString
	tier        string
	user        string
	modified    time.Time
	labels      []string
}

func (p *parameter) latest() *version { return p.versions[len(p.versions)-1] }

// find gives the version that a reference means.
func (p *parameter) find(r reference) (*version, error) {
	if r.version == 0 && r.label == "" {
		return p.latest(), nil
	}
	for _, v := range p.versions {
		if v.number == r.version || r.label != "" && slices.Contains(v.labels, r.label) {
			return v, nil
		}
	}
	what := fmt.Sprintf("version %d", r.version)
	if r.label != "" {
		what = "label " + r.label
	}
	return nil, failure("ParameterVersionNotFound", "Systems Manager could not find %s of %s. Verify the version and try again.", what, r.name)
}

// shown is the value as a caller gets it.
func (p *parameter) shown(v *version, decrypt bool) string {
	if p.typ != typeSecureString || decrypt {
		return v.value
	}
	// As much text as a short ciphertext of KMS; the same for the same version.
	sum := sha512.Sum512(fmt.Appendf(nil, "%s:%d:%s", p.name, v.number, v.value))
	return "AQICAHh" + base64.StdEncoding.EncodeToString(append(sum[:], sum[:]...))
}

// region gives the parameters of a region. The caller holds the lock.
func (s *Service) region(name string) map[string]*parameter {
	if s.regions[name] == nil {
		s.regions[name] = map[string]*parameter{}
	}
	return s.regions[name]
}

// find gives a parameter. The caller holds the lock.
func (s *Service) find(region string, r reference) (*parameter, error) {
	if r.region != "" && (r.region != region || r.account != s.cfg.AccountID) {
		return nil, failure("ParameterNotFound", "Parameter %s not found.", r.name)
	}
	store := s.region(region)
	p := store[r.name]
	if p == nil && r.region != "" { // an ARN of one level
		p = store["/"+r.name]
	}
	if p == nil {
		return nil, failure("ParameterNotFound", "Parameter %s not found.", r.name)
	}
	return p, nil
}
