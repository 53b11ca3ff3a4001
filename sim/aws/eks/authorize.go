package eks

import (
	"maps"
	"slices"
	"strings"

	"github.com/kubeopera/platform/sim/aws/keyring"
)

// ClusterRef names a cluster.
type ClusterRef struct{ Region, Name string }

// Clusters lists the clusters that tokens may be for: those whose API server
// answers.
func (s *Service) Clusters() []ClusterRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ClusterRef
	for _, region := range slices.Sorted(maps.Keys(s.regions)) {
		for _, name := range slices.Sorted(maps.Keys(s.regions[region])) {
			if cl := s.cluster(region, name); cl != nil && cl.view.Endpoint != "" && cl.goneAt.IsZero() {
				out = append(out, ClusterRef{Region: region, Name: name})
			}
		}
	}
	return out
}

// Identity is who a principal is inside a cluster.
type Identity struct {
	Username string
	Groups   []string
	Policies []Policy
}

// Policy is an access policy with where it holds; no namespaces means everywhere.
type Policy struct {
	Name       string
	Namespaces []string
}

// Identity finds the access entry of a principal; false if it has none.
func (s *Service) Identity(ref ClusterRef, principalARN string) (Identity, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cl := s.cluster(ref.Region, ref.Name)
	if cl == nil || cl.view.AccessConfig.AuthenticationMode == modeConfigMap {
		return Identity{}, false
	}
	e, ok := cl.entryOf(principalARN)
	if !ok {
		return Identity{}, false
	}
	session := principalARN[strings.LastIndexByte(principalARN, '/')+1:]
	id := Identity{
		Username: strings.NewReplacer("{{SessionName}}", session, "{{SessionNameRaw}}", session).Replace(e.view.Username),
		Groups:   slices.Clone(e.view.Groups),
	}
	for _, arn := range slices.Sorted(maps.Keys(e.policies)) {
		id.Policies = append(id.Policies, Policy{
			Name: strings.TrimPrefix(arn, policyPrefix), Namespaces: slices.Clone(e.policies[arn].Scope.Namespaces),
		})
	}
	return id, true
}

// entryOf finds a principal's entry. A session's ARN does not tell its role's
// path, so for a session the role's name alone counts.
func (cl *cluster) entryOf(principalARN string) (*entry, bool) {
	canonical := keyring.CanonicalARN(principalARN)
	if e := cl.entries[canonical]; e != nil {
		return e, true
	}
	if canonical == principalARN {
		return nil, false
	}
	name := canonical[strings.LastIndexByte(canonical, '/'):]
	for arn, e := range cl.entries {
		if kindOf(arn) == "role" && strings.HasSuffix(arn, name) {
			return e, true
		}
	}
	return nil, false
}
