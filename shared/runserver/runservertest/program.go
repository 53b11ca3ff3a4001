// Package runservertest runs a service's program as its command does, against a
// real API server.
package runservertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Run is a program with its surroundings as parameters.
type Run func(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error

// Program is one that runs.
type Program struct {
	URL string

	cancel context.CancelFunc
	ended  chan error
	logged chan string // the whole log, once it has ended
}

// Start runs a program until Stop, and returns once it listens.
func Start(tb testing.TB, run Run, env map[string]string) *Program {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	reader, writer := io.Pipe()
	p := &Program{cancel: cancel, ended: make(chan error, 1), logged: make(chan string, 1)}
	go func() {
		err := run(ctx, nil, func(name string) string { return env[name] }, io.Discard, writer)
		_ = writer.Close() // the reader sees the end
		p.ended <- err
	}()
	address := make(chan string, 1)
	go func() {
		var all strings.Builder
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			var entry struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "listening" {
				address <- entry.Address
			}
		}
		p.logged <- all.String()
	}()
	select {
	case at := <-address:
		p.URL = "http://" + at
	case err := <-p.ended:
		cancel()
		tb.Fatalf("ended at its start: %v\n%s", err, <-p.logged)
	case <-time.After(time.Minute):
		cancel()
		tb.Fatal("does not listen")
	}
	tb.Cleanup(cancel)
	return p
}

// Stop ends the program and gives its log.
func (p *Program) Stop(tb testing.TB) string {
	tb.Helper()
	p.cancel()
	select {
	case err := <-p.ended:
		if err != nil {
			tb.Errorf("ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		tb.Fatal("does not stop")
	}
	return <-p.logged
}

// Get reads a path of the program's.
func (p *Program) Get(tb testing.TB, path string) (status int, body string) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, p.URL+path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		tb.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// WaitForJob waits until there is a Job of that name.
func WaitForJob(tb testing.TB, client kubernetes.Interface, namespace, name string) *batchv1.Job {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		job, err := client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return job
		}
		if !apierrors.IsNotFound(err) {
			tb.Fatalf("waiting for Job %s: %v", name, err)
		}
		<-tick.C
	}
}

// File writes one line to a file of its own and gives its path.
func File(tb testing.TB, name, content string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
