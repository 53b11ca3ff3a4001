package git

import (
	"errors"
	"os/exec"
	"strings"
)

// Kind is what sort of failure a git command's is.
type Kind int

// The kinds of failures. All but Passing come again with another attempt.
const (
	// Passing is unknown, or of the network.
	Passing Kind = iota
	// Local is our own: no git, no disk.
	Local
	// Auth is a server that does not take the credential, or wants one.
	Auth
	// Forbidden is a server that knows the credential, which has not the right.
	Forbidden
	// Host is a server whose key or certificate is not one that is trusted.
	Host
	// Missing is no such repository or ref, as far as the server tells.
	Missing
	// Unadvertised is a server that does not give a commit by its id.
	Unadvertised
	// Unsupported is a server, or a protocol, that cannot do what was asked.
	Unsupported
)

// words are what git and its helpers say, in the C locale, for each kind. git has
// one exit code for all failures.
var words = []struct {
	kind  Kind
	texts []string
}{
	{Host, []string{
		"Host key verification failed", "SSL certificate problem", "server certificate verification failed", "error setting certificate",
		"SSL: no alternative certificate subject name", "unable to get local issuer certificate", "error adding trust anchors",
		// GnuTLS says of an expired or another's certificate no more than this.
		"certificate verification failed",
	}},
	{Auth, []string{
		"Authentication failed", "could not read Username", "could not read Password", "terminal prompts disabled",
		"Permission denied (", "The requested URL returned error: 401",
	}},
	{Forbidden, []string{"The requested URL returned error: 403", "marked as read only", "is not allowed to push", "Permission denied to", "denied to "}},
	{Missing, []string{
		"The requested URL returned error: 404", "couldn't find remote ref", "not found", "does not exist", "does not appear to be a git repository",
	}},
	{Unadvertised, []string{"not our ref", "unadvertised object"}},
	{Unsupported, []string{"transport '", "does not support", "dumb http transport"}},
	{Local, []string{"Permission denied", "No space left on device", "Read-only file system"}},
}

// Classify tells what sort of failure err is.
func Classify(err error) Kind {
	e, ok := errors.AsType[*Error](err)
	if !ok || errors.Is(err, exec.ErrNotFound) {
		return Local
	}
	if e.Late > 0 {
		return Passing
	}
	for _, w := range words {
		for _, text := range w.texts {
			if strings.Contains(e.Text, text) {
				return w.kind
			}
		}
	}
	return Passing
}
