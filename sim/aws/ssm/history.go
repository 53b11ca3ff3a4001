package ssm

import (
	"slices"
	"strings"
)

type historyInput struct {
	Name           string
	WithDecryption bool
	MaxResults     *int
	NextToken      string
}

// describedVersion is a version with all that is known of it.
type describedVersion struct {
	Name             string
	ARN              string `json:",omitempty"` // not in a history
	Type             string
	KeyID            string `json:"KeyId,omitempty"`
	LastModifiedDate timestamp
	LastModifiedUser string
	Description      string   `json:",omitempty"`
	Value            string   `json:",omitempty"` // in a history only
	AllowedPattern   string   `json:",omitempty"`
	Version          int64    // of the parameter
	Labels           []string `json:",omitzero"` // in a history only
	Tier             string
	Policies         []string
	DataType         string
}

func describe(p *parameter, v *version) describedVersion {
	return describedVersion{
		Name: p.name, Type: p.typ, KeyID: v.keyID, LastModifiedDate: timestamp(v.modified), LastModifiedUser: v.user,
		Description: v.description, AllowedPattern: v.pattern, Version: v.number, Tier: v.tier, Policies: []string{}, DataType: p.dataType,
	}
}

func (s *Service) getParameterHistory(c call, in historyInput) (any, error) {
	if err := s.authorize(c, in.Name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(c.caller.Region, reference{name: in.Name})
	if err != nil {
		return nil, err
	}
	var all []describedVersion
	for _, v := range p.versions {
		d := describe(p, v)
		d.Value, d.Labels = p.shown(v, in.WithDecryption), append([]string{}, v.labels...)
		all = append(all, d)
	}
	items, next, err := page(all, func(v describedVersion) string { return versionKey(v.Version) }, pageOf{in.MaxResults, 50, 50, in.NextToken})
	if err != nil {
		return nil, err
	}
	return struct {
		Parameters []describedVersion
		NextToken  string `json:",omitempty"`
	}{items, next}, nil
}

type labelInput struct {
	Name             string
	ParameterVersion int64
	Labels           []string
}

// labelParameterVersion moves labels to a version; a label is at one version only.
func (s *Service) labelParameterVersion(c call, in labelInput) (any, error) {
	if err := s.authorize(c, in.Name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(c.caller.Region, reference{name: in.Name})
	if err != nil {
		return nil, err
	}
	v, err := p.find(reference{name: in.Name, version: in.ParameterVersion})
	if err != nil {
		return nil, err
	}
	refused := []string{}
	var labels []string
	for _, label := range in.Labels {
		lower := strings.ToLower(label)
		if !labelPattern.MatchString(label) || strings.HasPrefix(lower, "aws") || strings.HasPrefix(lower, "ssm") {
			refused = append(refused, label)
			continue
		}
		if !slices.Contains(v.labels, label) && !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
	}
	if len(v.labels)+len(labels) > maxLabelsByVersion {
		return nil, failure("ParameterVersionLabelLimitExceeded",
			"An error occurred (ParameterVersionLabelLimitExceeded) when calling the LabelParameterVersion operation: A parameter version can have maximum %d labels.", maxLabelsByVersion)
	}
	for _, other := range p.versions {
		other.labels = slices.DeleteFunc(other.labels, func(l string) bool { return slices.Contains(labels, l) })
	}
	v.labels = append(v.labels, labels...)
	return struct {
		InvalidLabels    []string
		ParameterVersion int64
	}{refused, v.number}, nil
}
