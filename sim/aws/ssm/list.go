package ssm

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// pageOf says which part of a list a call wants.
type pageOf struct {
	size      *int // nil: standard
	standard  int
	max       int
	nextToken string
}

// page cuts a list that is in the order of its keys. The token is the last key
// that was given, so that it stays right when the list changes.
func page[T any](all []T, key func(T) string, of pageOf) (items []T, next string, err error) {
	size := of.standard
	if of.size != nil {
		if size = *of.size; size < 1 || size > of.max {
			return nil, "", constraint("maxResults", fmt.Sprintf("Member must have value between 1 and %d", of.max))
		}
	}
	items = []T{}
	after := ""
	if of.nextToken != "" {
		text, err := base64.RawURLEncoding.DecodeString(of.nextToken)
		if err != nil || len(text) == 0 {
			return nil, "", failure("InvalidNextToken", "The specified token isn't valid.")
		}
		after = string(text)
	}
	for _, item := range all {
		if after != "" && key(item) <= after {
			continue
		}
		if len(items) == size {
			return items, base64.RawURLEncoding.EncodeToString([]byte(key(items[size-1]))), nil
		}
		items = append(items, item)
	}
	return items, "", nil
}

func versionKey(number int64) string { return fmt.Sprintf("%019d", number) }

// sorted gives the parameters of a region that are selected, by name. The
// caller holds the lock.
func (s *Service) sorted(region string, selects func(*parameter) bool) []*parameter {
	var out []*parameter
	for _, p := range s.region(region) {
		if selects(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *parameter) int { return cmp.Compare(a.name, b.name) })
	return out
}

type byPathInput struct {
	Path             string
	Recursive        bool
	WithDecryption   bool
	ParameterFilters []filter
	MaxResults       *int
	NextToken        string
}

func (s *Service) getParametersByPath(c call, in byPathInput) (any, error) {
	if !strings.HasPrefix(in.Path, "/") || in.Path != "/" && !namePattern.MatchString(strings.TrimSuffix(in.Path, "/")) {
		return nil, invalid("The parameter path must begin with a slash and consist of names divided by slash symbol.")
	}
	if err := s.authorize(c, in.Path); err != nil {
		return nil, err
	}
	if strings.HasPrefix(in.Path, "/aws/") {
		return nil, errElsewhere
	}
	for _, f := range in.ParameterFilters {
		if err := f.check("Type", "KeyId", "Label"); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.sorted(c.caller.Region, func(p *parameter) bool {
		return below(p.name, in.Path, in.Recursive) && selected(p, in.ParameterFilters)
	})
	items, next, err := page(found, func(p *parameter) string { return p.name }, pageOf{in.MaxResults, 10, 10, in.NextToken})
	if err != nil {
		return nil, err
	}
	shown := []shownParameter{}
	for _, p := range items {
		shown = append(shown, s.show(c.caller.Region, p, p.latest(), "", in.WithDecryption))
	}
	return struct {
		Parameters []shownParameter
		NextToken  string `json:",omitempty"`
	}{shown, next}, nil
}

// below says whether a name is in a path, or in one under it.
func below(name, path string, recursive bool) bool {
	rest, ok := strings.CutPrefix("/"+strings.TrimPrefix(name, "/"), strings.TrimSuffix(path, "/")+"/")
	return ok && rest != "" && (recursive || !strings.Contains(rest, "/"))
}

type describeInput struct {
	Filters          []filter
	ParameterFilters []filter
	MaxResults       *int
	NextToken        string
}

func (s *Service) describeParameters(c call, in describeInput) (any, error) {
	if err := s.authorize(c, "*"); err != nil {
		return nil, err
	}
	if len(in.Filters) > 0 && len(in.ParameterFilters) > 0 {
		return nil, invalid("You can use either Filters or ParameterFilters in a single request.")
	}
	filters := in.ParameterFilters
	for _, f := range in.Filters { // the older kind
		f.Option = "BeginsWith"
		filters = append(filters, f)
	}
	for _, f := range filters {
		if err := f.check("Name", "Type", "KeyId", "Path", "Tier", "DataType", "Label"); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.sorted(c.caller.Region, func(p *parameter) bool { return selected(p, filters) })
	items, next, err := page(found, func(p *parameter) string { return p.name }, pageOf{in.MaxResults, 50, 50, in.NextToken})
	if err != nil {
		return nil, err
	}
	described := []describedVersion{}
	for _, p := range items {
		d := describe(p, p.latest())
		d.ARN = s.arn(c.caller.Region, p.name)
		described = append(described, d)
	}
	return struct {
		Parameters []describedVersion
		NextToken  string `json:",omitempty"`
	}{described, next}, nil
}
