// Package session is what kubeopera's commands share: the terminal, the global
// flags, and clients of the services that these lead to.
package session

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/request"
	"github.com/kubeopera/platform/provisioner/internal/cli/settings"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/client"
)

// Session is one call of the program.
type Session struct {
	Terminal terminal.Terminal
	Options  settings.Options // the global flags, once they have been parsed
}

// Input is where request files and secrets come from.
func (s *Session) Input() *request.Input {
	return &request.Input{Stdin: s.Terminal.In, Getenv: s.Terminal.Getenv}
}

// Provisioner is a client of cluster-provisioner.
func (s *Session) Provisioner() (*client.Provisioner, error) {
	return connect(s, settings.Provisioner, client.NewProvisioner)
}

// Scaffolder is a client of gitops-scaffolder.
func (s *Session) Scaffolder() (*client.Scaffolder, error) {
	return connect(s, settings.Scaffolder, client.NewScaffolder)
}

func connect[Client any](s *Session, service settings.Service, dial func(client.Config) (*Client, error)) (*Client, error) {
	fail := func(err error) (*Client, error) { return nil, &exit.Error{Code: exit.Usage, Err: err} }
	found, err := settings.Read(service, s.Options, s.Terminal.Getenv)
	if err != nil {
		return fail(err)
	}
	config := client.Config{BaseURL: found.URL, APIKey: found.APIKey.Reveal()}
	if found.CAFile != "" {
		if config.HTTPClient, err = trusting(found.CAFile); err != nil {
			return fail(err)
		}
	}
	c, err := dial(config)
	if err != nil {
		return fail(err)
	}
	return c, nil
}

// trusting is an HTTP client that trusts the CAs of a file only.
func trusting(file string) (*http.Client, error) {
	pem, err := os.ReadFile(file) //nolint:gosec // whoever runs the program names the file
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", file)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	t.ResponseHeaderTimeout = 90 * time.Second // above any long poll
	return &http.Client{Transport: t}, nil
}
