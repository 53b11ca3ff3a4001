package eks

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kubeopera/platform/sim/aws/protocol"
)

const maxTags = 50

// tagsOf finds the tags of what an ARN names. The caller holds the lock.
func (s *Service) tagsOf(c call) (*map[string]string, error) {
	arn := c.PathValue("arn")
	resource, ok := strings.CutPrefix(arn, s.arn(c.caller.Region, ""))
	parts := strings.Split(resource, "/")
	if !ok || len(parts) < 2 {
		return nil, invalidParameter("The ARN %s is not valid", arn)
	}
	if cl := s.cluster(c.caller.Region, parts[1]); cl != nil {
		if cl.view.ARN == arn {
			return &cl.view.Tags, nil
		}
		for name, ng := range cl.nodegroups {
			if ng.view.ARN == arn && s.nodegroup(cl, name) != nil {
				return &ng.view.Tags, nil
			}
		}
		for name, a := range cl.addons {
			if a.view.ARN == arn && s.addon(cl, name) != nil {
				return &a.view.Tags, nil
			}
		}
		for _, e := range cl.entries {
			if e.view.ARN == arn {
				return &e.view.Tags, nil
			}
		}
		for _, p := range cl.identities {
			if p.ARN == arn {
				return &p.Tags, nil
			}
		}
	}
	return nil, &protocol.Error{Status: http.StatusNotFound, Code: "NotFoundException", Message: "Resource was not found"}
}

func (s *Service) listTags(c call, _ none) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, err := s.tagsOf(c)
	if err != nil {
		return nil, err
	}
	return map[string]any{"tags": *tags}, nil
}

type tagInput struct {
	Tags map[string]string `json:"tags"`
}

func (s *Service) tagResource(c call, in tagInput) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, err := s.tagsOf(c)
	if err != nil {
		return nil, err
	}
	next := maps.Clone(*tags) // a view that was given away must not change
	maps.Copy(next, in.Tags)
	if len(next) > maxTags {
		return nil, invalidParameter("A resource can have at most %d tags", maxTags)
	}
	*tags = next
	return map[string]any{}, nil
}

func (s *Service) untagResource(c call, _ none) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, err := s.tagsOf(c)
	if err != nil {
		return nil, err
	}
	keys := c.URL.Query()["tagKeys"]
	next := maps.Clone(*tags)
	maps.DeleteFunc(next, func(key, _ string) bool { return slices.Contains(keys, key) })
	*tags = next
	return map[string]any{}, nil
}
