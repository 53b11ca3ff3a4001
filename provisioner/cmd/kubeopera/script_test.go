package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runner/runnertest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kubeopera": main})
}

// searchPath is an environment's PATH with this program and little else.
func searchPath(tb testing.TB) string {
	tb.Helper()
	program, err := exec.LookPath("kubeopera")
	if err != nil {
		tb.Fatal(err)
	}
	return "PATH=" + filepath.Dir(program) + ":/usr/local/bin:/usr/bin:/bin"
}

type (
	apiOfScript        struct{}
	scaffolderOfScript struct{}
)

// TestScripts runs the program against a service of its own for each script.
//
//	exits CODE args...   runs kubeopera and wants that exit code
//	asked FILE           writes what cluster-provisioner was asked to a file
//	scaffolder-asked FILE
//	mode PERM FILE       wants these permissions
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			f := newFakeAPI(t)
			e.Defer(f.server.Close)
			e.Values[apiOfScript{}] = f
			s := newFakeScaffolder()
			e.Defer(s.server.Close)
			e.Values[scaffolderOfScript{}] = s
			home := filepath.Join(e.WorkDir, "home")
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			e.Vars = append(e.Vars, runnertest.NoExitSleep)
			e.Setenv("HOME", home)
			e.Setenv("KUBEOPERA_URL", f.url())
			e.Setenv("KUBEOPERA_API_KEY", apiKey)
			e.Setenv("KUBEOPERA_SCAFFOLDER_URL", s.url())
			e.Setenv("KUBEOPERA_SCAFFOLDER_API_KEY", scaffolderAPIKey)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 1 {
					ts.Fatalf("usage: exits CODE args...")
				}
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				got := 0
				if err := ts.Exec("kubeopera", args[1:]...); err != nil {
					exit, ok := errors.AsType[*exec.ExitError](err)
					if !ok {
						ts.Fatalf("%v", err)
					}
					got = exit.ExitCode()
				}
				if got != want {
					ts.Fatalf("exit code %d, want %d", got, want)
				}
				for _, file := range []string{"stdout", "stderr"} {
					if strings.Contains(ts.ReadFile(file), "canary") {
						ts.Fatalf("%s has a secret", file)
					}
				}
			},
			"asked": func(ts *testscript.TestScript, _ bool, args []string) {
				f := ts.Value(apiOfScript{}).(*fakeAPI)
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(f.requests()), 0o600))
			},
			"scaffolder-asked": func(ts *testscript.TestScript, _ bool, args []string) {
				s := ts.Value(scaffolderOfScript{}).(*fakeService[api.Scaffold])
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(s.requests()), 0o600))
			},
			"mode": func(ts *testscript.TestScript, _ bool, args []string) {
				info, err := os.Stat(ts.MkAbs(args[1]))
				ts.Check(err)
				if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
					ts.Fatalf("%s has mode %s", args[1], got)
				}
			},
		},
	})
}
