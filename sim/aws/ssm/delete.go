package ssm

type nameInput struct{ Name string }

func (s *Service) deleteParameter(c call, in nameInput) (any, error) {
	if err := s.authorize(c, in.Name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	store := s.region(c.caller.Region)
	if store[in.Name] == nil {
		return nil, failure("ParameterNotFound", "Parameter %s not found.", in.Name)
	}
	delete(store, in.Name)
	return struct{}{}, nil
}

type namesInput struct{ Names []string }

func (s *Service) deleteParameters(c call, in namesInput) (any, error) {
	if len(in.Names) == 0 || len(in.Names) > maxNames {
		return nil, constraint("names", "Member must have length between 1 and 10")
	}
	if err := s.authorize(c, in.Names...); err != nil {
		return nil, err
	}
	out := struct{ DeletedParameters, InvalidParameters []string }{[]string{}, []string{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	store := s.region(c.caller.Region)
	for _, name := range in.Names {
		if store[name] == nil {
			out.InvalidParameters = append(out.InvalidParameters, name)
			continue
		}
		delete(store, name)
		out.DeletedParameters = append(out.DeletedParameters, name)
	}
	return out, nil
}
