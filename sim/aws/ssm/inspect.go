package ssm

import (
	"maps"
	"strings"
)

// Parameter is the latest version of a parameter, as a test sees it.
type Parameter struct {
	Name, Type, Tier, Value string
	Version                 int64
	Tags                    map[string]string
}

// Get returns a parameter with its value in plain text.
func (s *Service) Get(region, name string) (Parameter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.region(region)[name]
	if p == nil {
		return Parameter{}, false
	}
	v := p.latest()
	return Parameter{Name: p.name, Type: p.typ, Tier: v.tier, Value: v.value, Version: v.number, Tags: maps.Clone(p.tags)}, true
}

// Put writes a parameter as PutParameter with Overwrite does, unthrottled; one
// that is new becomes a SecureString.
func (s *Service) Put(region, name, value string) error {
	in := putInput{Name: name, Value: value, Overwrite: true}
	if p, ok := s.Get(region, name); ok {
		in.Tier = p.Tier
	} else {
		in.Type = typeSecureString
	}
	_, err := s.put(region, "simulator", in)
	return err
}

// Names lists the parameters whose names begin with a prefix, in order.
func (s *Service) Names(region, prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{}
	for _, p := range s.sorted(region, func(p *parameter) bool { return strings.HasPrefix(p.name, prefix) }) {
		names = append(names, p.name)
	}
	return names
}
