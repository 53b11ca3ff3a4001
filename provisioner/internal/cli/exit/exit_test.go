package exit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/shared/api"
)

func TestOf(t *testing.T) {
	t.Parallel()
	noAnswer := &url.Error{Op: "Get", URL: "http://x", Err: errors.New("connection refused")}
	tests := []struct {
		name string
		err  error
		want exit.Code
	}{
		{"none", nil, 0},
		{"another", errors.New("x"), 1},
		{"usage", exit.Usagef("x"), 2},
		{"of its own, wrapped", fmt.Errorf("x: %w", &exit.Error{Code: exit.RunFailed, Err: errors.New("x")}), 3},
		{"refused", &api.Problem{Status: 422, Code: "invalid_request"}, 1},
		{"not found", &api.Problem{Status: 404, Code: "provision_not_found"}, 6},
		{"gone", &api.Problem{Status: 410, Code: "kubeconfig_gone"}, 1},
		{"a proxy's 404", &api.Problem{Status: 404, Code: "no_problem_document"}, 1},
		{"unauthorized", &api.Problem{Status: 401, Code: "unauthorized"}, 7},
		{"unavailable", &api.Problem{Status: 503, Code: "database_unavailable"}, 8},
		{"too many", &api.Problem{Status: 429, Code: "slow_down"}, 8},
		{"no answer", fmt.Errorf("get: %w", noAnswer), 8},
		{"conflict", &api.Problem{Status: 409, Code: "environment_busy"}, 9},
		{"interrupted", fmt.Errorf("get: %w", &url.Error{Op: "Get", URL: "http://x", Err: context.Canceled}), 130},
	}
	for _, tt := range tests {
		if got := exit.Of(tt.err); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestWriteKeepsTheTerminalSafe(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	exit.Write(&out, &api.Problem{Status: 409, Code: "x", Detail: "\x1b[2J", Instance: "/api/v1/provisions/\x1b7", RequestID: "\x07"})
	if bytes.ContainsAny(out.Bytes(), "\x1b\x07") {
		t.Errorf("got %q", out.String())
	}
}
