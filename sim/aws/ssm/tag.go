package ssm

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
)

type tagInput struct {
	ResourceType, ResourceID string
	Tags                     []tag
	TagKeys                  []string
}

// tagged gives the parameter that a call on tags is for. The caller holds the lock.
func (s *Service) tagged(c call, in tagInput) (*parameter, error) {
	p := s.region(c.caller.Region)[in.ResourceID]
	if p == nil {
		return nil, failure("InvalidResourceId", "The resource ID isn't valid. Verify that you entered the correct ID and try again.")
	}
	return p, nil
}

func (s *Service) addTags(c call, in tagInput) (any, error) {
	if in.ResourceType != "Parameter" {
		return nil, errElsewhere
	}
	if err := s.authorize(c, in.ResourceID); err != nil {
		return nil, err
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.tagged(c, in)
	if err != nil {
		return nil, err
	}
	tags := maps.Clone(p.tags)
	maps.Insert(tags, tagsOf(in.Tags))
	if len(tags) > maxTags {
		return nil, failure("TooManyTagsError", "The Tags parameter includes too many tags. The maximum is %d.", maxTags)
	}
	p.tags = tags
	return struct{}{}, nil
}

func (s *Service) removeTags(c call, in tagInput) (any, error) {
	if in.ResourceType != "Parameter" {
		return nil, errElsewhere
	}
	if err := s.authorize(c, in.ResourceID); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.tagged(c, in)
	if err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		delete(p.tags, key)
	}
	return struct{}{}, nil
}

func (s *Service) listTags(c call, in tagInput) (any, error) {
	if in.ResourceType != "Parameter" {
		return nil, errElsewhere
	}
	if err := s.authorize(c, in.ResourceID); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.tagged(c, in)
	if err != nil {
		return nil, err
	}
	list := []tag{}
	for key, value := range p.tags {
		list = append(list, tag{Key: key, Value: value})
	}
	slices.SortFunc(list, func(a, b tag) int { return cmp.Compare(a.Key, b.Key) })
	return struct{ TagList []tag }{list}, nil
}

func checkTags(tags []tag) error {
	if len(tags) > maxTags {
		return failure("TooManyTagsError", "The Tags parameter includes too many tags. The maximum is %d.", maxTags)
	}
	for _, t := range tags {
		switch {
		case t.Key == "" || len(t.Key) > 128:
			return constraint("tags", "Member must have length between 1 and 128")
		case len(t.Value) > 256:
			return constraint("tags", "Member must have length less than or equal to 256")
		case strings.HasPrefix(strings.ToLower(t.Key), "aws:"):
			return invalid("Tag keys that begin with aws: are reserved.")
		}
	}
	return nil
}

func tagsOf(tags []tag) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, t := range tags {
			if !yield(t.Key, t.Value) {
				return
			}
		}
	}
}
