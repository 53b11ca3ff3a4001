package clone

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Files of the credential, as in a Secret of type kubernetes.io/basic-auth.
const (
	usernameFile = "username"
	passwordFile = "password"
)

// defaultUsername goes with a token: servers that take one ignore the name.
const defaultUsername = "git"

// gitEnv is git's whole environment: nothing of the container's configuration
// and nothing of ours but what is named here.
func gitEnv(cfg Config, remote *url.URL) []string {
	env := []string{
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=",
		"GIT_ALLOW_PROTOCOL=https:http:ssh:file",
		"GIT_SSH_COMMAND=ssh -o BatchMode=yes",
	}
	for _, key := range []string{"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy"} {
		if value := cfg.Getenv(key); value != "" {
			env = append(env, key+"="+value)
		}
	}
	settings := [][2]string{
		{"advice.detachedHead", "false"},
		{"init.defaultBranch", "main"},
		{"http.followRedirects", "initial"},
		// A connection that has gone quiet fails instead of eating the attempt's time.
		{"http.lowSpeedLimit", "1000"},
		{"http.lowSpeedTime", "30"},
		{"core.hooksPath", "/dev/null"},
		{"credential.helper", ""}, // forget helpers of elsewhere
	}
	if exists(cfg.CAFile) {
		settings = append(settings, [2]string{"http.sslCAInfo", cfg.CAFile})
	}
	// Over plain http a password could be read by anybody on the way.
	if remote.Scheme == "https" && exists(filepath.Join(cfg.AuthDir, passwordFile)) {
		settings = append(settings, [2]string{"credential.helper", "!" + shellQuote(cfg.CredentialCommand)})
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return env
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// shellQuote makes a command line of words, for the shell that git starts.
func shellQuote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// Answer answers one question of git's credential protocol: it reads which
// server git asks for and writes the credential if it is the repository's own.
// A server that redirects elsewhere does not get it.
func Answer(operation, repository, authDir string, question io.Reader, answer io.Writer) error {
	if operation != "get" { // store and erase are not for us
		return nil
	}
	remote, err := url.Parse(repository)
	if err != nil {
		return fmt.Errorf("read the repository's URL: %w", err)
	}
	asked := map[string]string{}
	for lines := bufio.NewScanner(question); lines.Scan() && lines.Text() != ""; {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok {
			asked[key] = value
		}
	}
	if asked["protocol"] != "https" || remote.Scheme != "https" || !strings.EqualFold(asked["host"], remote.Host) {
		return nil
	}
	var lines []string
	for _, name := range []string{usernameFile, passwordFile} {
		data, err := os.ReadFile(filepath.Join(authDir, name))
		if name == usernameFile && os.IsNotExist(err) {
			data, err = []byte(defaultUsername), nil
		}
		if err != nil {
			return fmt.Errorf("read the repository's credential: %w", err)
		}
		value := strings.TrimRight(string(data), "\r\n")
		if strings.ContainsAny(value, "\n\x00") {
			return fmt.Errorf("the repository's %s has more than one line", name)
		}
		lines = append(lines, name+"="+value)
	}
	if _, err := io.WriteString(answer, strings.Join(lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("answer git: %w", err)
	}
	return nil
}
