package envconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/envconfig"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want map[string]string
		says string // of the error; empty: there is none
	}{
		"pairs between commas":      {"HTTPS_PROXY=http://proxy, NO_PROXY=.svc,", map[string]string{"HTTPS_PROXY": "http://proxy", "NO_PROXY": ".svc"}, ""},
		"pairs between line breaks": {"NO_PROXY=a,b\nX=1", map[string]string{"NO_PROXY": "a,b", "X": "1"}, ""},
		"no pair":                   {"HTTPS_PROXY", nil, "KEY=VALUE"},
		"no name":                   {"a b=c", nil, "KEY=VALUE"},
		"a key twice":               {"A=1,A=hunter2", nil, "once"},
		"an AWS key":                {"aws_secret_access_key=hunter2", nil, "auth-service"},
		"a URL's password":          {"HTTPS_PROXY=http://u:hunter2@proxy", nil, "user or password"},
		"the loader's":              {"LD_PRELOAD=hunter2", nil, "must not set LD_PRELOAD"},
		"git's way to ssh":          {"X=1,GIT_SSH_COMMAND=hunter2", nil, "must not set GIT_SSH_COMMAND: the runner sets it itself, or it would replace a run's credential"},
		"git's settings":            {"GIT_CONFIG_COUNT=1\nGIT_CONFIG_KEY_0=credential.helper\nGIT_CONFIG_VALUE_0=!hunter2", nil, "must not set GIT_CONFIG_COUNT"},
		"an agent with keys":        {"SSH_AUTH_SOCK=/hunter2", nil, "must not set SSH_AUTH_SOCK"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got map[string]string
			err := envconfig.Environment(&got, c.text)
			if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("error %v, want one that says %q and no value", err, c.says)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add("A=1,B=2")
	f.Add("GIT_DIR=/x\nB=\n")
	f.Fuzz(func(t *testing.T, text string) {
		var got map[string]string
		if err := envconfig.Environment(&got, text); err != nil && got != nil {
			t.Errorf("%v, and yet %v", err, got)
		}
		for name := range got {
			if strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "SSH_") {
				t.Errorf("%s is let pass", name)
			}
		}
	})
}
