package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/scaffoldrunner/internal/repository"
	"github.com/kubeopera/platform/scaffoldrunner/internal/scaffold"
	"github.com/kubeopera/platform/scaffoldrunner/internal/sshagent"
	"github.com/kubeopera/platform/scaffoldrunner/internal/target"
	"github.com/kubeopera/platform/shared/kubeconfig"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/shared/runner/ekstoken"
	"github.com/kubeopera/platform/shared/runner/git"
	"github.com/kubeopera/platform/shared/runner/runlog"
)

// gitHelper is the command that git itself calls.
const gitHelper = "git-credential"

// world is the repository and the cluster that the run spec names, by the
// credential's files.
type world struct {
	process     runner.Process
	spec        runcontract.ScaffoldSpec
	flags       runFlags
	credentials *credentials
	redactor    *redact.Redactor
	log         *runlog.Log
	dir         string // of this run alone

	agents []*sshagent.Agent
}

func (w *world) close() error {
	var errs []error
	for _, a := range w.agents {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// remote is the repository.
func (w *world) remote(ctx context.Context) (scaffold.Remote, error) {
	env, err := w.gitEnv()
	if err != nil {
		return nil, err
	}
	r := w.spec.Repository
	return repository.Open(ctx, repository.Config{
		URL:         r.URL,
		Dir:         filepath.Join(w.dir, "repository.git"),
		Env:         env,
		Redactor:    w.redactor,
		Log:         w.log.Printf,
		AuthorName:  r.AuthorName,
		AuthorEmail: r.AuthorEmail,
		Sign:        r.Signed,
	})
}

// gitEnv is what git runs with. No secret is in it: the token is given by this
// program to who asks for it, keys stay with agents.
func (w *world) gitEnv() ([]string, error) {
	r := w.spec.Repository
	c := git.Config{Getenv: w.process.Getenv, Protocols: []string{"https", "ssh"}, Env: map[string]string{}}
	maps.Copy(c.Env, w.spec.Env)
	c.Env["TMPDIR"] = w.dir // git leaves files behind when it signs
	// Hooks on the server may take their time before they say anything.
	c.Settings = append(c.Settings, git.Setting{Name: "http.lowSpeedTime", Value: "120"})
	if r.CA {
		bundle, err := w.trusted()
		if err != nil {
			return nil, err
		}
		c.Settings = append(c.Settings, git.Setting{Name: "http.sslCAInfo", Value: bundle})
	}
	switch r.Auth {
	case runcontract.RepositoryAuthToken:
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		c.Settings = append(c.Settings, git.Helper([]string{
			self, gitHelper, "--url=" + r.URL, "--username=" + r.Username, "--password-file=" + filepath.Join(w.credentials.dir, runcontract.CredentialGitTokenFile),
		}))
	case runcontract.RepositoryAuthSSH:
		agent, err := w.agent(w.credentials.sshKey)
		if err != nil {
			return nil, &scaffold.StepError{Code: runcontract.CodeRepositoryAuth, Message: err.Error()}
		}
		c.Env["GIT_SSH_COMMAND"] = git.ShellQuote(sshCommand(agent.Socket, filepath.Join(w.credentials.dir, runcontract.CredentialKnownHostsFile)))
		c.Env["GIT_SSH_VARIANT"] = "ssh"
	}
	if r.Signed {
		agent, err := w.agent(w.credentials.signingKey)
		if err != nil {
			return nil, &scaffold.StepError{Code: runcontract.CodeInvalidSpec, Message: "commits cannot be signed: " + err.Error()}
		}
		// ssh itself is told another agent's, so that no server sees this key.
		c.Env["SSH_AUTH_SOCK"] = agent.Socket
		c.Settings = append(c.Settings,
			git.Setting{Name: "gpg.format", Value: "ssh"},
			git.Setting{Name: "user.signingKey", Value: "key::" + agent.PublicKey},
		)
	}
	return git.Env(c), nil
}

func (w *world) agent(key redact.Secret) (*sshagent.Agent, error) {
	a, err := sshagent.Start(key)
	if err == nil {
		w.agents = append(w.agents, a)
	}
	return a, err
}

// sshCommand is ssh with nothing of anybody's configuration: one agent's key, and
// the hosts that came with the credential.
func sshCommand(socket, knownHosts string) []string {
	command := []string{"ssh", "-F", "/dev/null"}
	for _, option := range []string{
		"BatchMode=yes",
		"StrictHostKeyChecking=yes", "UserKnownHostsFile=" + knownHosts, "GlobalKnownHostsFile=/dev/null", "UpdateHostKeys=no",
		"IdentityAgent=" + socket, "IdentityFile=none", "PreferredAuthentications=publickey",
		"ForwardAgent=no", "ClearAllForwardings=yes", "PermitLocalCommand=no",
		"ConnectTimeout=30", "ServerAliveInterval=15", "ServerAliveCountMax=8",
	} {
		command = append(command, "-o", option)
	}
	return command
}

// systemBundles are where distributions keep what they trust.
var systemBundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// trusted writes what the image trusts, and the repository's CA, into one file.
func (w *world) trusted() (string, error) {
	own, err := os.ReadFile(filepath.Join(w.flags.caDir, runcontract.RepositoryCAFile))
	if err != nil {
		return "", fmt.Errorf("read the CA of the repository's server: %w", err)
	}
	bundles := systemBundles
	if file := w.process.Getenv("SSL_CERT_FILE"); file != "" {
		bundles = []string{file}
	}
	var all []byte
	for _, file := range bundles {
		if data, err := os.ReadFile(file); err == nil {
			all = append(data, '\n')
			break
		}
	}
	file := filepath.Join(w.dir, "trusted.crt")
	if err := os.WriteFile(file, slices.Concat(all, own), 0o600); err != nil {
		return "", fmt.Errorf("write what git trusts: %w", err)
	}
	return file, nil
}

// target is the cluster.
func (w *world) target(ctx context.Context) (scaffold.Target, error) {
	var mint func(context.Context) (target.Token, error)
	if eks := w.spec.Target.EKS; eks != nil {
		cfg, err := awsconfig.Load(ctx, awsconfig.FilesIn(w.credentials.dir), eks.Region)
		if err != nil {
			return nil, &scaffold.StepError{Code: runcontract.CodeCredentialRefused, Message: err.Error()}
		}
		mint = func(ctx context.Context) (target.Token, error) {
			token, err := ekstoken.New(ctx, cfg, eks.Name, time.Now())
			if err == nil {
				w.redactor.Add(token.Value)
			}
			return target.Token{Value: token.Value, Expires: token.Expires}, err
		}
	}
	return target.Connect(w.credentials.kubeconfig, w.process.Name+"/"+runner.Version(), mint)
}

// secretsInside are the secrets inside of a kubeconfig and of the AWS files.
func secretsInside(dir string, data []byte) ([]string, error) {
	secrets, err := awsconfig.FilesIn(dir).Secrets()
	if err != nil {
		return nil, err
	}
	config, err := kubeconfig.Parse(data)
	if err != nil {
		return secrets, nil //nolint:nilerr // what is wrong with it is said when it is used
	}
	for _, user := range config.AuthInfos {
		secrets = append(secrets, user.Token, user.Password, string(user.ClientKeyData))
		if user.Exec != nil {
			for _, v := range user.Exec.Env {
				if v.Name != "AWS_STS_REGIONAL_ENDPOINTS" {
					secrets = append(secrets, v.Value)
				}
			}
		}
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return strings.TrimSpace(s) == "" }), nil
}

// credentialCommand answers git's question for a username and password.
func credentialCommand(args []string, p runner.Process) runcontract.ExitCode {
	var login git.Login
	flags := flag.NewFlagSet(gitHelper, flag.ContinueOnError)
	flags.StringVar(&login.Repository, "url", "", "URL of the repository")
	flags.StringVar(&login.Username, "username", "", "user at the repository's server")
	flags.StringVar(&login.PasswordFile, "password-file", "", "file with the password")
	flags.SetOutput(p.Stderr)
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		return runner.ExitUsage
	}
	if err := git.Answer(flags.Arg(0), login, p.Stdin, p.Stdout); err != nil {
		p.Complain("%s: %v\n", p.Name, err)
		return runcontract.ExitRepositoryAuth
	}
	return runcontract.ExitOK
}
