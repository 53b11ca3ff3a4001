package eks

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kubeopera/platform/sim/aws/keyring"
)

// Authentication modes, in the order in which a cluster may go through them.
const (
	modeConfigMap = "CONFIG_MAP"
	modeBoth      = "API_AND_CONFIG_MAP"
	modeAPI       = "API"
)

var modes = []string{modeConfigMap, modeBoth, modeAPI}

// Types of access entries.
const (
	typeStandard = "STANDARD"
	typeLinux    = "EC2_LINUX"
)

var entryTypes = []string{typeStandard, typeLinux, "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX"}

// policyPrefix begins the ARNs of AWS's access policies.
const policyPrefix = "arn:aws:eks::aws:cluster-access-policy/"

// Access policies that stand for one of Kubernetes' own roles.
const (
	PolicyClusterAdmin = "AmazonEKSClusterAdminPolicy"
	PolicyAdmin        = "AmazonEKSAdminPolicy"
	PolicyEdit         = "AmazonEKSEditPolicy"
	PolicyView         = "AmazonEKSViewPolicy"
	PolicyAdminView    = "AmazonEKSAdminViewPolicy"
)

var policies = []string{
	PolicyClusterAdmin, PolicyAdmin, PolicyEdit, PolicyView, PolicyAdminView,
	"AmazonEKSAutoNodePolicy", "AmazonEKSBlockStoragePolicy", "AmazonEKSLoadBalancingPolicy", "AmazonEKSNetworkingPolicy",
	"AmazonEKSComputePolicy", "AmazonEKSBlockStorageClusterPolicy", "AmazonEKSLoadBalancingClusterPolicy", "AmazonEKSHybridPolicy",
}

type entryView struct {
	ClusterName  string            `json:"clusterName"`
	PrincipalARN string            `json:"principalArn"`
	Groups       []string          `json:"kubernetesGroups"`
	ARN          string            `json:"accessEntryArn"`
	CreatedAt    timestamp         `json:"createdAt"`
	ModifiedAt   timestamp         `json:"modifiedAt"`
	Tags         map[string]string `json:"tags"`
	Username     string            `json:"username"`
	Type         string            `json:"type"`
}

type accessScope struct {
	Type       string   `json:"type"`
	Namespaces []string `json:"namespaces"`
}

type associatedPolicy struct {
	PolicyARN    string      `json:"policyArn"`
	Scope        accessScope `json:"accessScope"`
	AssociatedAt timestamp   `json:"associatedAt"`
	ModifiedAt   timestamp   `json:"modifiedAt"`
}

type entry struct {
	view     entryView
	policies map[string]associatedPolicy // by policy ARN
}

func (s *Service) listAccessPolicies(c call, _ none) (any, error) {
	names, next, err := page(c, policies)
	if err != nil {
		return nil, err
	}
	out := []map[string]string{}
	for _, name := range names {
		out = append(out, map[string]string{"name": name, "arn": policyPrefix + name})
	}
	return map[string]any{"accessPolicies": out, "nextToken": next}, nil
}

// openEntries is open for calls about access entries, which only some modes have.
func (s *Service) openEntries(c call) (*cluster, func(), error) {
	cl, unlock, err := s.open(c)
	if err != nil {
		return nil, unlock, err
	}
	if cl.view.AccessConfig.AuthenticationMode == modeConfigMap {
		return nil, unlock, invalidRequest("The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.")
	}
	return cl, unlock, nil
}

func (s *Service) openEntry(c call) (*cluster, *entry, func(), error) {
	cl, unlock, err := s.openEntries(c)
	if err != nil {
		return nil, nil, unlock, err
	}
	e := cl.entries[c.PathValue("principal")]
	if e == nil {
		return nil, nil, unlock, notFound("The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.")
	}
	return cl, e, unlock, nil
}

type accessEntryInput struct {
	PrincipalARN string            `json:"principalArn"`
	Groups       *[]string         `json:"kubernetesGroups"`
	Tags         map[string]string `json:"tags"`
	Username     string            `json:"username"`
	Type         string            `json:"type"`
}

// principalPattern matches users and roles; sessions of roles are not accepted.
var principalPattern = regexp.MustCompile(`^arn:aws[\w-]*:iam::\d{12}:(user|role)/[\w+=,.@/-]+$`)

var reserved = regexp.MustCompile(`^(system:|eks:|aws:|amazon:|iam:)`)

func (in *accessEntryInput) check(kind string) error {
	if kind != typeStandard && (in.Groups != nil && len(*in.Groups) > 0 || in.Username != "") {
		return invalidParameter("kubernetesGroups and username cannot be set for an access entry of type %s", kind)
	}
	if in.Groups != nil {
		for _, group := range *in.Groups {
			if group == "" || reserved.MatchString(group) {
				return invalidParameter("The kubernetes group name %s is invalid, it cannot start with any of system:, eks:, aws:, amazon:, iam:", group)
			}
		}
	}
	if reserved.MatchString(in.Username) {
		return invalidParameter("The username %s is invalid, it cannot start with any of system:, eks:, aws:, amazon:, iam:", in.Username)
	}
	return nil
}

func (s *Service) createAccessEntry(c call, in accessEntryInput) (any, error) {
	if !principalPattern.MatchString(in.PrincipalARN) {
		return nil, invalidParameter("The principalArn parameter format is not valid")
	}
	if in.Type == "" {
		in.Type = typeStandard
	}
	if !slices.Contains(entryTypes, in.Type) {
		return nil, invalidParameter("The type %s is not valid", in.Type)
	}
	if err := in.check(in.Type); err != nil {
		return nil, err
	}
	cl, unlock, err := s.openEntries(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if status := s.settle(c.Context(), cl); status == statusCreating || status == statusDeleting {
		return nil, invalidRequest("Cluster %s is in status %s", cl.view.Name, status)
	}
	if cl.entries[in.PrincipalARN] != nil {
		return nil, inUse("The specified access entry resource is already in use on this cluster.")
	}
	var groups []string
	if in.Groups != nil {
		groups = *in.Groups
	}
	e := s.addEntry(cl, in.PrincipalARN, in.Type, groups, in.Username, in.Tags)
	return map[string]any{"accessEntry": e.view}, nil
}

// addEntry adds an entry. The caller holds the lock.
func (s *Service) addEntry(cl *cluster, principal, kind string, groups []string, username string, tags map[string]string) *entry {
	now := timestamp(s.cfg.Now())
	switch {
	case kind == typeLinux:
		username, groups = "system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}
	case username == "":
		username = defaultUsername(principal)
	}
	name := principal[strings.LastIndexByte(principal, '/')+1:]
	e := &entry{
		view: entryView{
			ClusterName: cl.view.Name, PrincipalARN: principal, Groups: append([]string{}, groups...), Username: username, Type: kind,
			ARN:       s.arn(cl.region, "access-entry/"+cl.view.Name+"/"+kindOf(principal)+"/"+s.cfg.AccountID+"/"+name+"/"+s.newID()),
			CreatedAt: now, ModifiedAt: now, Tags: orEmpty(tags),
		},
		policies: map[string]associatedPolicy{},
	}
	cl.entries[principal] = e
	return e
}

// addCreator makes who created a cluster its administrator.
func (s *Service) addCreator(cl *cluster, principal string) {
	principal = keyring.CanonicalARN(principal)
	if !principalPattern.MatchString(principal) {
		return // root has no access entry
	}
	now := timestamp(s.cfg.Now())
	e := s.addEntry(cl, principal, typeStandard, nil, "", nil)
	arn := policyPrefix + PolicyClusterAdmin
	e.policies[arn] = associatedPolicy{
		PolicyARN: arn, Scope: accessScope{Type: "cluster", Namespaces: []string{}}, AssociatedAt: now, ModifiedAt: now,
	}
}

func kindOf(principal string) string {
	if strings.Contains(principal, ":role/") {
		return "role"
	}
	return "user"
}

// defaultUsername is a user's ARN; for a role, that of its sessions.
func defaultUsername(principal string) string {
	if kindOf(principal) == "user" {
		return principal
	}
	parts := strings.SplitN(principal, ":", 6)
	role := principal[strings.LastIndexByte(principal, '/')+1:]
	return parts[0] + ":" + parts[1] + ":sts::" + parts[4] + ":assumed-role/" + role + "/{{SessionName}}"
}

func (s *Service) listAccessEntries(c call, _ none) (any, error) {
	cl, unlock, err := s.openEntries(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var arns []string
	for _, arn := range slices.Sorted(maps.Keys(cl.entries)) {
		if policy := c.URL.Query().Get("associatedPolicyArn"); policy != "" {
			if _, ok := cl.entries[arn].policies[policy]; !ok {
				continue
			}
		}
		arns = append(arns, arn)
	}
	items, next, err := page(c, arns)
	if err != nil {
		return nil, err
	}
	return map[string]any{"accessEntries": items, "nextToken": next}, nil
}

func (s *Service) describeAccessEntry(c call, _ none) (any, error) {
	_, e, unlock, err := s.openEntry(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return map[string]any{"accessEntry": e.view}, nil
}

func (s *Service) updateAccessEntry(c call, in accessEntryInput) (any, error) {
	_, e, unlock, err := s.openEntry(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if err := in.check(e.view.Type); err != nil {
		return nil, err
	}
	if in.Groups != nil {
		e.view.Groups = append([]string{}, *in.Groups...)
	}
	if in.Username != "" {
		e.view.Username = in.Username
	}
	e.view.ModifiedAt = timestamp(s.cfg.Now())
	return map[string]any{"accessEntry": e.view}, nil
}

func (s *Service) deleteAccessEntry(c call, _ none) (any, error) {
	cl, e, unlock, err := s.openEntry(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	delete(cl.entries, e.view.PrincipalARN)
	return map[string]any{}, nil
}

type associateInput struct {
	PolicyARN string      `json:"policyArn"`
	Scope     accessScope `json:"accessScope"`
}

func (s *Service) associateAccessPolicy(c call, in associateInput) (any, error) {
	name, ok := strings.CutPrefix(in.PolicyARN, policyPrefix)
	if !ok || !slices.Contains(policies, name) {
		return nil, invalidParameter("The policyArn parameter format is not valid")
	}
	switch in.Scope.Type {
	case "cluster":
		if len(in.Scope.Namespaces) > 0 {
			return nil, invalidParameter("Namespaces cannot be set when the access scope type is cluster")
		}
	case "namespace":
		if len(in.Scope.Namespaces) == 0 {
			return nil, invalidParameter("Namespaces must be set when the access scope type is namespace")
		}
	default:
		return nil, invalidParameter("The access scope type %s is not valid", in.Scope.Type)
	}
	cl, e, unlock, err := s.openEntry(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if e.view.Type != typeStandard {
		return nil, invalidRequest("Access policies cannot be associated with an access entry of type %s", e.view.Type)
	}
	now := timestamp(s.cfg.Now())
	p := associatedPolicy{
		PolicyARN: in.PolicyARN, AssociatedAt: now, ModifiedAt: now,
		Scope: accessScope{Type: in.Scope.Type, Namespaces: append([]string{}, in.Scope.Namespaces...)},
	}
	if old, ok := e.policies[in.PolicyARN]; ok {
		p.AssociatedAt = old.AssociatedAt
	}
	e.policies[in.PolicyARN] = p
	return map[string]any{"clusterName": cl.view.Name, "principalArn": e.view.PrincipalARN, "associatedAccessPolicy": p}, nil
}

func (s *Service) listAssociatedAccessPolicies(c call, _ none) (any, error) {
	cl, e, unlock, err := s.openEntry(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	arns, next, err := page(c, slices.Sorted(maps.Keys(e.policies)))
	if err != nil {
		return nil, err
	}
	out := []associatedPolicy{}
	for _, arn := range arns {
		out = append(out, e.policies[arn])
	}
	return map[string]any{
		"clusterName": cl.view.Name, "principalArn": e.view.PrincipalARN, "associatedAccessPolicies": out, "nextToken": next,
	}, nil
}

func (s *Service) disassociateAccessPolicy(c call, _ none) (any, error) {
	_, e, unlock, err := s.openEntry(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	arn := c.PathValue("policy")
	if _, ok := e.policies[arn]; !ok {
		return nil, notFound("The specified policyArn is not associated with the access entry.")
	}
	delete(e.policies, arn)
	return map[string]any{}, nil
}
