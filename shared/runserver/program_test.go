package runserver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/envconfig"
)

func program() Program[Config] {
	return Program[Config]{
		Name: "service", Version: "1.2.3", About: "service serves.\n", Settings: Settings(Defaults{Database: "sqlite:x.db", RunTimeout: "1h", GracePeriod: "1m"}),
		LogLevel: func(c Config) slog.Level { return c.LogLevel },
		Run:      func(context.Context, Config, *slog.Logger) error { return errors.New("it ran") },
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	configured := map[string]string{"API_KEYS_FILE": "/keys", "AUTH_SERVICE_URL": "http://auth-service", "AUTH_SERVICE_API_KEY_FILE": "/key"}
	cases := map[string]struct {
		args   []string
		env    map[string]string
		prints string
		fails  string
	}{
		"help":                  {args: []string{"--help"}, prints: "RUN_TIMEOUT"},
		"help says what it is":  {args: []string{"-h"}, prints: "service serves."},
		"version":               {args: []string{"--version"}, prints: "1.2.3"},
		"an unknown flag":       {args: []string{"--port=1"}, fails: "--help"},
		"an argument":           {args: []string{"serve"}, fails: "--help"},
		"nothing is configured": {fails: "AUTH_SERVICE_URL is required"},
		"all is well":           {env: configured, fails: "it ran"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			err := program().Main(t.Context(), c.args, func(name string) string { return c.env[name] }, &stdout, &stderr)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("error %v, want %q", err, c.fails)
			}
			if !strings.Contains(stdout.String(), c.prints) {
				t.Errorf("prints %s, want %q", &stdout, c.prints)
			}
		})
	}
}

func TestHelpNamesEveryVariable(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	if err := envconfig.WriteHelp(&help, program().Settings); err != nil {
		t.Fatal(err)
	}
	for _, s := range program().Settings {
		if !strings.Contains(help.String(), "  "+s.Name+" ") || s.Help == "" {
			t.Errorf("%s is not in the help, or has none", s.Name)
		}
	}
}
