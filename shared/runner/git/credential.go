package git

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// Login is what Answer answers with.
type Login struct {
	// Repository is the URL of the repository that the login is for.
	Repository string
	Username   string
	// PasswordFile has the password; line breaks at its end are no part of it.
	PasswordFile string
}

// Answer answers one question of git's credential protocol: it reads which
// server git asks for and writes the login if that is the repository's own. A
// server that redirects elsewhere does not get it, and none over plain http, where
// anybody on the way could read it.
func Answer(operation string, login Login, question io.Reader, answer io.Writer) error {
	if operation != "get" { // store and erase are not for us
		return nil
	}
	remote, err := url.Parse(login.Repository)
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
	data, err := os.ReadFile(login.PasswordFile)
	if err != nil {
		return fmt.Errorf("read the repository's credential: %w", err)
	}
	password := strings.TrimRight(string(data), "\r\n")
	for what, value := range map[string]string{"username": login.Username, "password": password} {
		if strings.ContainsAny(value, "\n\x00") {
			return fmt.Errorf("the repository's %s has more than one line", what)
		}
	}
	if _, err := fmt.Fprintf(answer, "username=%s\npassword=%s\n", login.Username, password); err != nil {
		return fmt.Errorf("answer git: %w", err)
	}
	return nil
}
