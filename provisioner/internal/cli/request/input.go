package request

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
)

// maxFile is what a service takes, in bytes.
const maxFile = 1 << 20

// Input is where files come from.
type Input struct {
	Stdin  io.Reader
	Getenv func(string) string

	taken string // the flag that standard input was for
}

// Read gives the content of a file that a flag names, - being standard input, which
// can be had once.
func (in *Input) Read(flag, path string) ([]byte, error) {
	if path == "" {
		return nil, exit.Usagef("%s needs a file", flag)
	}
	source := in.Stdin
	if path == "-" {
		if in.taken != "" {
			return nil, exit.Usagef("standard input is for one of %s and %s, not for both", in.taken, flag)
		}
		in.taken = flag
	} else {
		f, err := os.Open(path) //nolint:gosec // whoever runs the program names the file
		if err != nil {
			return nil, &exit.Error{Code: exit.Usage, Err: fmt.Errorf("%s: %w", flag, err)}
		}
		defer func() { _ = f.Close() }() // only read from
		source = f
	}
	data, err := io.ReadAll(io.LimitReader(source, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if len(data) > maxFile {
		return nil, exit.Usagef("%s: more than %d bytes", path, maxFile)
	}
	return data, nil
}

// Secret is Read for a secret. An empty one is an error: somebody meant to give one.
func (in *Input) Secret(flag, path string) (string, error) {
	data, err := in.Read(flag, path)
	if err != nil {
		return "", err
	}
	secret := string(data)
	if line := strings.TrimSuffix(strings.TrimSuffix(secret, "\n"), "\r"); !strings.Contains(line, "\n") {
		secret = line
	}
	if strings.TrimSpace(secret) == "" {
		return "", exit.Usagef("%s: there is nothing in it", flag)
	}
	return secret, nil
}
