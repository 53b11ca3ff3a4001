package clone

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubeopera/platform/shared/runner/git"
)

// Files of the credential, as in a Secret of type kubernetes.io/basic-auth.
const (
	usernameFile = "username"
	passwordFile = "password"
)

// defaultUsername goes with a token: servers that take one ignore the name.
const defaultUsername = "git"

// gitEnv is git's whole environment.
func gitEnv(cfg Config, remote *url.URL) []string {
	c := git.Config{Getenv: cfg.Getenv, Protocols: []string{"https", "http", "ssh", "file"}}
	if exists(cfg.CAFile) {
		c.Settings = append(c.Settings, git.Setting{Name: "http.sslCAInfo", Value: cfg.CAFile})
	}
	// Over plain http a password could be read by anybody on the way.
	if remote.Scheme == "https" && exists(filepath.Join(cfg.AuthDir, passwordFile)) {
		c.Settings = append(c.Settings, git.Helper(cfg.CredentialCommand))
	}
	return git.Env(c)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Answer answers one question of git's credential protocol with the credential in authDir.
func Answer(operation, repository, authDir string, question io.Reader, answer io.Writer) error {
	name, err := os.ReadFile(filepath.Join(authDir, usernameFile))
	if os.IsNotExist(err) {
		name, err = []byte(defaultUsername), nil
	}
	if err != nil {
		return fmt.Errorf("read the repository's credential: %w", err)
	}
	return git.Answer(operation, git.Login{
		Repository:   repository,
		Username:     strings.TrimRight(string(name), "\r\n"),
		PasswordFile: filepath.Join(authDir, passwordFile),
	}, question, answer)
}
