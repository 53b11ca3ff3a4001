package ssm

import (
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"
)

type tag struct{ Key, Value string }

type putInput struct {
	Name, Value, Type, KeyID, Tier, DataType, Policies string
	Description, AllowedPattern                        *string
	Overwrite                                          bool
	Tags                                               []tag
}

func (s *Service) putParameter(c call, in putInput) (any, error) {
	if err := s.authorize(c, in.Name); err != nil {
		return nil, err
	}
	if len(in.Tags) > 0 {
		if err := s.authorizeAction(c, "ssm:AddTagsToResource", in.Name); err != nil {
			return nil, err
		}
	}
	p, err := s.put(c.caller.Region, c.caller.PrincipalARN, in)
	if err != nil {
		return nil, err
	}
	return p, nil
}

type putOutput struct {
	Version int64
	Tier    string
}

func (s *Service) put(region, user string, in putInput) (putOutput, error) {
	if err := checkPut(in); err != nil {
		return putOutput{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	store := s.region(region)
	p := store[in.Name]
	switch {
	case p != nil && !in.Overwrite:
		return putOutput{}, failure("ParameterAlreadyExists",
			"The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")
	case p == nil && in.Type == "":
		return putOutput{}, invalid("A parameter type is required when you create a parameter.")
	case p != nil && in.Type != "" && in.Type != p.typ:
		return putOutput{}, failure("HierarchyTypeMismatchException",
			"The parameter type %s of %s cannot be changed to %s. Delete the parameter and create it anew.", p.typ, in.Name, in.Type)
	}
	next := &parameter{name: in.Name, typ: in.Type, dataType: dataTypeText, tags: map[string]string{}}
	v := &version{number: 1}
	if p != nil {
		last := p.latest()
		next = p
		v = &version{number: last.number + 1, description: last.description, pattern: last.pattern, tier: last.tier}
		if len(p.versions) == maxVersions && len(p.versions[0].labels) > 0 {
			return putOutput{}, failure("ParameterMaxVersionLimitExceeded",
				"You attempted to create a new version of %s by calling the PutParameter API. Version %d, the oldest version, can't be deleted because it has a label associated with it.",
				in.Name, p.versions[0].number)
		}
	}
	if err := v.fill(in, next); err != nil {
		return putOutput{}, err
	}
	v.user, v.modified = user, s.cfg.Now()
	if in.DataType != "" {
		next.dataType = in.DataType
	}
	next.versions = append(next.versions, v)
	if len(next.versions) > maxVersions {
		next.versions = slices.Delete(next.versions, 0, 1)
	}
	if p == nil {
		maps.Insert(next.tags, tagsOf(in.Tags))
		store[in.Name] = next
	}
	return putOutput{Version: v.number, Tier: v.tier}, nil
}

// fill takes over what a request says, and holds it against what was there.
func (v *version) fill(in putInput, p *parameter) error {
	tier, err := chooseTier(in, v.tier)
	if err != nil {
		return err
	}
	v.tier, v.value = tier, in.Value
	if in.Description != nil {
		v.description = *in.Description
	}
	if in.AllowedPattern != nil {
		v.pattern = *in.AllowedPattern
	}
	switch {
	case p.typ == typeSecureString:
		v.keyID = in.KeyID
		if v.keyID == "" {
			v.keyID = defaultKey
		}
	case in.KeyID != "":
		return invalid("KeyId is required for SecureString type parameter only.")
	}
	if v.pattern == "" {
		return nil
	}
	pattern, err := regexp.Compile(`^(?:` + v.pattern + `)$`)
	if err != nil {
		return failure("InvalidAllowedPatternException", "The request does not meet the regular expression requirement.")
	}
	if !pattern.MatchString(v.value) {
		return failure("ParameterPatternMismatchException", "Parameter value, cannot be validated against allowedPattern: %s", v.pattern)
	}
	return nil
}

// chooseTier gives the tier of a new version; before is that of the last one,
// empty if there is none. As in AWS, a request without a tier means the
// account's default, Standard.
func chooseTier(in putInput, before string) (string, error) {
	tier := in.Tier
	switch {
	case tier == "":
		tier = tierStandard
	case tier == tierIntelligent && (before == tierAdvanced || len(in.Value) > maxStandard):
		tier = tierAdvanced
	case tier == tierIntelligent:
		tier = tierStandard
	}
	switch {
	case before == tierAdvanced && tier == tierStandard:
		return "", invalid("This parameter uses the advanced-parameter tier. You can't downgrade a parameter from the advanced-parameter tier to the standard-parameter tier. If necessary, you can delete the advanced parameter and recreate it as a standard parameter.")
	case tier == tierStandard && len(in.Value) > maxStandard:
		return "", invalid("Standard tier parameters support a maximum parameter value of %d characters. To create a larger parameter value, upgrade the parameter to use the advanced-parameter tier. For more information, see https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html", maxStandard)
	case len(in.Value) > maxAdvanced:
		return "", invalid("Advanced tier parameters support a maximum parameter value of %d characters.", maxAdvanced)
	}
	return tier, nil
}

// checkPut is for what is wrong whatever is there.
func checkPut(in putInput) error {
	switch {
	case in.Value == "":
		return constraint("value", "Member must have length greater than or equal to 1")
	case in.Type != "" && !slices.Contains([]string{typeString, typeStringList, typeSecureString}, in.Type):
		return constraint("type", "Member must satisfy enum value set: [SecureString, StringList, String]")
	case in.Tier != "" && !slices.Contains([]string{tierStandard, tierAdvanced, tierIntelligent}, in.Tier):
		return constraint("tier", "Member must satisfy enum value set: [Standard, Advanced, Intelligent-Tiering]")
	case in.DataType != "" && !slices.Contains([]string{dataTypeText, "aws:ec2:image", "aws:ssm:integration"}, in.DataType):
		return invalid("The following data type is not supported: %s (Data type names are all lowercase.)", in.DataType)
	case in.Description != nil && utf8.RuneCountInString(*in.Description) > maxDescription:
		return constraint("description", "Member must have length less than or equal to 1024")
	case in.AllowedPattern != nil && utf8.RuneCountInString(*in.AllowedPattern) > maxPattern:
		return constraint("allowedPattern", "Member must have length less than or equal to 1024")
	case in.Policies != "" && in.Policies != "[]":
		return failure("InvalidPolicyTypeException", "the simulator has no parameter policies")
	case len(in.Tags) > 0 && in.Overwrite:
		return invalid("Invalid request: tags and overwrite can't be used together. To create a parameter with tags, please remove overwrite flag. To update tags for an existing parameter, please use AddTagsToResource or RemoveTagsFromResource.")
	}
	if err := checkName(in.Name); err != nil {
		return err
	}
	return checkTags(in.Tags)
}
