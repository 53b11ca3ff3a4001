package ssm

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/kubeopera/platform/sim/aws/emulator"
)

// with is the call's request with another body, for the fallback.
func (c call) with(body []byte) *http.Request {
	r := c.Clone(c.Context())
	emulator.SetBody(r, body)
	return r
}

// getPublic asks the fallback for public parameters and adds its answer.
func (s *Service) getPublic(c call, names []string, out *getManyOutput) error {
	if len(names) == 0 {
		return nil
	}
	if s.cfg.Fallback == nil {
		out.InvalidParameters = append(out.InvalidParameters, names...)
		return nil
	}
	body, err := json.Marshal(map[string][]string{"Names": names})
	if err != nil {
		return err
	}
	answer := emulator.NewAnswer()
	s.cfg.Fallback.ServeHTTP(answer, c.with(body))
	var public struct {
		Parameters        []json.RawMessage
		InvalidParameters []string
	}
	if err := json.Unmarshal(answer.Body(), &public); err != nil || answer.Status() != http.StatusOK {
		return fmt.Errorf("get public parameters: status %d: %w", answer.Status(), err)
	}
	for _, p := range public.Parameters {
		out.Parameters = append(out.Parameters, p)
	}
	out.InvalidParameters = append(out.InvalidParameters, public.InvalidParameters...)
	return nil
}
