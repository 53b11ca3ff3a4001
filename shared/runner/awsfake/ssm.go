package awsfake

import (
	"encoding/json"
	"net/http"
	"strings"
)

// SetParameter puts a SecureString there.
func (s *Server) SetParameter(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parameters[name] = value
}

// maxNames is how many parameters SSM gives at once.
const maxNames = 10

// serveSSM answers in AWS's JSON protocol, whose operations are named by a header.
func (s *Server) serveSSM(req request) {
	_, req.operation, _ = strings.Cut(req.r.Header.Get("X-Amz-Target"), ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operations = append(s.operations, req.operation)
	refuse := func(code string) {
		req.w.WriteHeader(http.StatusBadRequest)
		req.json(map[string]string{"__type": code, "message": "a refusal of the test's AWS"})
	}
	if s.fault != nil {
		if code, _ := s.fault(req.operation, ""); code != "" {
			refuse(code)
			return
		}
	}
	var in struct {
		Names          []string
		Path           string
		WithDecryption bool
	}
	err := json.Unmarshal(req.body, &in)
	if req.operation == "GetParametersByPath" && in.Path != "" { // one page of whatever size
		for name := range s.parameters {
			if below, ok := strings.CutPrefix(name, in.Path+"/"); ok && !strings.Contains(below, "/") {
				in.Names = append(in.Names, name)
			}
		}
	} else if err != nil || req.operation != "GetParameters" || len(in.Names) == 0 || len(in.Names) > maxNames {
		refuse("ValidationException")
		return
	}
	type parameter struct {
		Name, Type, Value string
		Version           int
	}
	out := struct {
		Parameters        []parameter
		InvalidParameters []string
	}{}
	for _, name := range in.Names {
		value, ok := s.parameters[name]
		if !ok {
			out.InvalidParameters = append(out.InvalidParameters, name)
			continue
		}
		if !in.WithDecryption {
			value = "kms:encrypted"
		}
		out.Parameters = append(out.Parameters, parameter{Name: name, Type: "SecureString", Value: value, Version: 1})
	}
	req.json(out)
}

// json writes an answer; a client that is gone needs none.
func (req request) json(v any) { _ = json.NewEncoder(req.w).Encode(v) }
