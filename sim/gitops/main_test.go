package gitops_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/sim/git"
	"github.com/kubeopera/platform/sim/gitops"
	"github.com/kubeopera/platform/sim/sandbox"
)

func TestMain(m *testing.M) {
	if err := sandbox.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err) // the tests that need it are skipped
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"),
		goleak.IgnoreAnyFunction("net/http/internal/http2.(*clientConnReadLoop).run"))
}

// patience is for what takes seconds on a machine that is not busy.
const patience = 90 * time.Second

// until waits for something to hold; if it does not, now says what holds instead.
func until(t *testing.T, what string, holds func(context.Context) (ok bool, now string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, now := holds(ctx)
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("within %s not true that %s: %s", patience, what, now)
		case <-tick.C:
		}
	}
}

// secret waits for a Secret.
func secret(t *testing.T, target *gitops.Target, namespace, name string) *corev1.Secret {
	t.Helper()
	var found *corev1.Secret
	until(t, "there is a Secret "+namespace+"/"+name, func(ctx context.Context) (bool, string) {
		var err error
		found, err = target.Kubernetes().CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return found
}

// repository is a repository of a Git server that runs until the test ends.
func repository(t *testing.T) (*git.Server, *git.Repository) {
	t.Helper()
	server, err := git.Start(t.Context(), t.TempDir(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := server.Create(t.Context(), "platform")
	if err != nil {
		t.Fatal(err)
	}
	return server, r
}

// commit makes a tree the newest commit of the main branch.
func commit(t *testing.T, r *git.Repository, files map[string]string) string {
	t.Helper()
	tree := fstest.MapFS{}
	for name, content := range files {
		tree[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	id, err := r.Commit(t.Context(), "a tree", map[string]fs.FS{".": tree})
	if err != nil {
		t.Fatal(err)
	}
	return id
}
