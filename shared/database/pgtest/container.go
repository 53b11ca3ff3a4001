package pgtest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// image is the server that is run where there is Docker but no Postgres.
const image = "postgres:17-alpine"

// container starts a server in a container of its own that ends with tb. It
// listens on a port of 127.0.0.1 that Docker picks.
func container(tb testing.TB) (address string, err error) {
	tb.Helper()
	docker, err := exec.LookPath("docker")
	if err != nil {
		return "", err
	}
	// A pull takes as long as the network lets it.
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	id, err := output(ctx, docker, "run", "--detach", "--rm", "--publish", "127.0.0.1::5432", "--env", "POSTGRES_HOST_AUTH_METHOD=trust", image)
	if err != nil {
		return "", err
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := output(ctx, docker, "rm", "--force", id); err != nil {
			tb.Errorf("the container of Postgres is left: %v", err)
		}
	})
	published, err := output(ctx, docker, "port", id, "5432/tcp")
	if err != nil {
		return "", err
	}
	host, _, _ := strings.Cut(published, "\n")
	address = "postgres://postgres@" + host + "/postgres?sslmode=disable"
	return address, await(ctx, address, nil)
}

// output is what a command prints, or an error with what it says is wrong.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, text)
	}
	return text, nil
}
