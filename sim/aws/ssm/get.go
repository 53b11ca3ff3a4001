package ssm

import (
	"errors"

	"github.com/kubeopera/platform/sim/aws/protocol"
)

const maxNames = 10

// shownParameter is a parameter in the answers that have its value.
type shownParameter struct {
	Name             string
	Type             string
	Value            string
	Version          int64
	Selector         string `json:",omitempty"`
	LastModifiedDate timestamp
	ARN              string
	DataType         string
}

func (s *Service) show(region string, p *parameter, v *version, selector string, decrypt bool) shownParameter {
	return shownParameter{
		Name: p.name, Type: p.typ, Value: p.shown(v, decrypt), Version: v.number, Selector: selector,
		LastModifiedDate: timestamp(v.modified), ARN: s.arn(region, p.name), DataType: p.dataType,
	}
}

type getInput struct {
	Name           string
	WithDecryption bool
}

func (s *Service) getParameter(c call, in getInput) (any, error) {
	r, err := parseReference(in.Name)
	if err != nil {
		return nil, err
	}
	if err := s.authorize(c, r.name); err != nil {
		return nil, err
	}
	if r.public() {
		return nil, errElsewhere
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(c.caller.Region, r)
	if err != nil {
		return nil, err
	}
	v, err := p.find(r)
	if err != nil {
		return nil, err
	}
	return struct{ Parameter shownParameter }{s.show(c.caller.Region, p, v, r.selector(), in.WithDecryption)}, nil
}

type getManyInput struct {
	Names          []string
	WithDecryption bool
}

type getManyOutput struct {
	Parameters        []any
	InvalidParameters []string
}

func (s *Service) getParameters(c call, in getManyInput) (any, error) {
	if len(in.Names) == 0 || len(in.Names) > maxNames {
		return nil, constraint("names", "Member must have length between 1 and 10")
	}
	out := getManyOutput{Parameters: []any{}, InvalidParameters: []string{}}
	var references []reference
	var public []string
	for _, name := range in.Names {
		r, err := parseReference(name)
		if err != nil {
			out.InvalidParameters = append(out.InvalidParameters, name)
			continue
		}
		if err := s.authorize(c, r.name); err != nil {
			return nil, err
		}
		if r.public() {
			public = append(public, name)
			continue
		}
		references = append(references, r)
	}
	if err := s.getPublic(c, public, &out); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range references {
		p, err := s.find(c.caller.Region, r)
		var v *version
		if err == nil {
			v, err = p.find(r)
		}
		if _, missing := errors.AsType[*protocol.Error](err); missing {
			out.InvalidParameters = append(out.InvalidParameters, r.name+r.selector())
			continue
		}
		out.Parameters = append(out.Parameters, s.show(c.caller.Region, p, v, r.selector(), in.WithDecryption))
	}
	return out, nil
}
