// Package cli is the command tree of kubeopera. Each service has a part of its own
// (provisioncmd, scaffoldcmd), and so has what works without one (envcmd); what the
// parts share is in the packages beside them:
//
//	session     global flags, clients of the services
//	settings    where a service is and its key: flags, environment, configuration file
//	runcmd      what commands for runs have in common, of whatever service
//	request     what is asked for: files, flags, secrets
//	terminal    what the streams can show
//	progress    how a run goes, while somebody waits for it
//	output      results as table, JSON, YAML or names
//	kubemerge   kubeconfigs into a file with others
//	kubefile    the same for commands
//	exit        exit codes and the words for errors
package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/envcmd"
	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/provisioncmd"
	"github.com/kubeopera/platform/provisioner/internal/cli/scaffoldcmd"
	"github.com/kubeopera/platform/provisioner/internal/cli/session"
	"github.com/kubeopera/platform/provisioner/internal/cli/settings"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
)

// Program is what the command line is given.
type Program struct {
	Version  string
	Terminal terminal.Terminal
}

// Run runs the command that args name and gives its exit code. What went wrong has
// been said by then.
func Run(ctx context.Context, p Program, args []string) exit.Code {
	s := &session.Session{Terminal: p.Terminal}
	begun := false
	root := New(s, p.Version)
	root.SetArgs(args)
	root.SetIn(p.Terminal.In)
	root.SetOut(p.Terminal.Out)
	root.SetErr(p.Terminal.Err)
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exit.OK
	}
	if !begun && exit.Of(err) == exit.Failed {
		err = &exit.Error{Code: exit.Usage, Err: err} // of flags and arguments
	}
	exit.Write(p.Terminal.Err, err)
	if exit.Of(err) == exit.Usage && !begun {
		_, _ = fmt.Fprintf(p.Terminal.Err, "  help: %s --help\n", cmd.CommandPath())
	}
	return exit.Of(err)
}

// New makes the command tree.
func New(s *session.Session, version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubeopera",
		Short: "Provision and set up Kubernetes clusters with the kubeopera platform",
		Long: `kubeopera provisions Kubernetes clusters with the kubeopera platform and makes their
GitOps trees.

Where cluster-provisioner is, and the API key for it, come from the first of these
that says so:
  1. flags:        --url, --api-key-file, --ca-file
  2. environment:  KUBEOPERA_URL, KUBEOPERA_API_KEY or KUBEOPERA_API_KEY_FILE, KUBEOPERA_CA_FILE
  3. a context (--context, KUBEOPERA_CONTEXT, else current_context) of the configuration
     file (--config, KUBEOPERA_CONFIG, else ~/.config/kubeopera/config.yaml):

       current_context: prod
       contexts:
         prod:
           url: https://provisioner.example.com
           api_key_file: prod.key     # beside the configuration file
           ca_file: ca.pem            # if the system does not trust it
           scaffolder:
             url: https://scaffolder.example.com
             api_key_file: scaffolder.key

gitops-scaffolder has settings of its own, in the same three places: --scaffolder-url,
KUBEOPERA_SCAFFOLDER_URL and so on, and the fields of scaffolder in a context.

A key itself is never an argument. It goes to the service that it was given for, a
context's key to the context's URL only.

Exit codes: 0 done, 1 refused or another error, 2 usage, 3 run failed, 4 run cancelled,
5 not finished in --timeout, 6 not found, 7 API key not accepted, 8 service unavailable,
9 conflict, 130 interrupted.`,
		SilenceErrors: true, SilenceUsage: true,
	}
	f := root.PersistentFlags()
	f.StringVar(&s.Options.ConfigFile, "config", "", "configuration file")
	f.StringVar(&s.Options.Context, "context", "", "context of the configuration file")
	settings.Provisioner.AddFlags(f, &s.Options)
	_ = root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) { // the flag exists
		file, _, err := settings.ReadFile(s.Options, s.Terminal.Getenv)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(file.Contexts)), cobra.ShellCompDirectiveNoFileComp
	})
	root.AddCommand(provisioncmd.New(s), scaffoldcmd.New(s), envcmd.New(s), versionCommand(s, version))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exit.Error{Code: exit.Usage, Err: err} })
	for _, cmd := range append(root.Commands(), root) {
		if cmd.HasSubCommands() {
			group(cmd)
		}
	}
	return root
}

func versionCommand(s *session.Session, version string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.Terminal.Out, version)
			return err
		},
	}
}

// group makes a command of one that only has others: by itself it shows its help,
// and an unknown one is an error in how the program was called.
func group(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		cmd.SuggestionsMinimumDistance = 2 // letters apart
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return exit.Usagef("%s has no command %q%s", cmd.CommandPath(), args[0], hint)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}
