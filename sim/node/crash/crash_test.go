// Package crash_test kills a program that runs a cluster, as root and as an
// ordinary user, and looks for what is left. It is a package of its own because
// its test binary must not be in a sandbox, which package node's is.
package crash_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
	"github.com/kubeopera/platform/sim/node"
	"github.com/kubeopera/platform/sim/sandbox"
)

// dirVariable makes the test binary the program that is killed; it names the
// program's directory, assetsVariable that of the binaries.
const (
	dirVariable    = "CRASH_TEST_DIR"
	assetsVariable = "CRASH_TEST_ASSETS"
)

func TestMain(m *testing.M) {
	dir, isProgram := os.LookupEnv(dirVariable)
	assets, _ := os.LookupEnv(assetsVariable)
	if !isProgram && !strings.HasPrefix(os.Args[0], "kubeopera-sandbox") {
		os.Exit(m.Run())
	}
	err := sandbox.Enter()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		err = program(ctx, dir, assets)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
}

// program starts a cluster and a pod that leaves a process behind in a session
// of its own, and says on standard output what that has printed. Then it waits
// until its input ends, and stops in order.
func program(ctx context.Context, dir, assets string) error {
	plane, err := controlplane.Start(ctx, controlplane.Config{Assets: assets, Dir: filepath.Join(dir, "plane"), ControllerManager: true})
	if err != nil {
		return err
	}
	image := node.Image{Binds: map[string]string{}, Entrypoint: []string{"/bin/sh", "-c"}}
	for _, path := range []string{"/bin", "/lib", "/lib64", "/usr"} {
		if _, err := os.Stat(path); err == nil {
			image.Binds[path] = path
		}
	}
	n, err := node.New(node.Config{
		RESTConfig: plane.RESTConfig(), TLS: plane.KubeletTLS(), Dir: filepath.Join(dir, "node"),
		Images: map[string]node.Image{"image": image},
	})
	if err != nil {
		return err
	}
	nodeCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(nodeCtx) }()
	<-n.Ready()
	line, err := runPod(ctx, plane, dir)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, line)
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	return plane.Stop(ctx)
}

// runPod runs the pod and returns the first line of its log.
func runPod(ctx context.Context, plane *controlplane.ControlPlane, marker string) (string, error) {
	client, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		return "", err
	}
	pods := client.CoreV1().Pods("default")
	for {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(50 * time.Millisecond):
		}
	}
	if _, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "image",
			Args: []string{"setsid sh -c 'while :; do sleep 1; done' " + marker + " >/dev/null 2>&1 & trap '' TERM; echo pod runs; while :; do sleep 1; done", marker},
		}}},
	}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	for {
		// Until the pod is bound its log is empty, until it runs a refusal.
		stream, err := pods.GetLogs("pod", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
		if err == nil {
			var line string
			line, err = bufio.NewReader(stream).ReadString('\n')
			_ = stream.Close()
			if err == nil {
				return strings.TrimSpace(line), nil
			}
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestKillLeavesNothing(t *testing.T) {
	assets := controlplanetest.Assets(t)
	type user struct {
		name string
		uid  int
	}
	users := []user{{name: "as this user", uid: os.Getuid()}}
	if os.Getuid() == 0 {
		users = append(users, user{name: "as an ordinary user", uid: 65534})
	}
	for _, u := range users {
		t.Run(u.name, func(t *testing.T) {
			dir := publicDir(t)
			executable, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			if u.uid != os.Getuid() {
				// That user can read neither this user's cache nor Go's.
				executable = link(t, executable, dir)
				public := filepath.Join(dir, "assets")
				if err := os.Mkdir(public, 0o755); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
					link(t, filepath.Join(assets, name), public)
				}
				assets = public
			}
			command := exec.CommandContext(t.Context(), executable)
			command.Dir = "/"
			command.Stderr = os.Stderr
			command.Env = append(os.Environ(), dirVariable+"="+dir, assetsVariable+"="+assets, "HOME="+dir, "XDG_CACHE_HOME="+dir)
			command.SysProcAttr = &syscall.SysProcAttr{}
			if u.uid != os.Getuid() {
				command.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.uid)}
			}
			input, err := command.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = input.Close() }()
			output, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(output).ReadString('\n')
			if strings.Contains(line, "namespaces are not permitted") {
				_ = command.Wait()
				skip.Missing(t, skip.Namespaces, line)
			}
			if line != "pod runs\n" {
				t.Fatalf("the program said %q (%v), want that its pod runs", line, err)
			}
			// etcd, kube-apiserver, kube-controller-manager, and the pod's two.
			if before := processesWith(t, dir); len(before) < 5 {
				t.Fatalf("only %d processes have the directory in their arguments: %q", len(before), before)
			}
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = command.Wait()
			deadline := time.After(10 * time.Second)
			for left := processesWith(t, dir); len(left) > 0; left = processesWith(t, dir) {
				select {
				case <-deadline:
					t.Fatalf("left running: %q", left)
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
}

// publicDir is a temporary directory that every user may use.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// link puts a file into a directory, without a copy if it can be.
func link(t *testing.T, path, dir string) string {
	t.Helper()
	target := filepath.Join(dir, filepath.Base(path))
	if os.Link(path, target) == nil {
		return target
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return target
}

// processesWith lists the processes that have a text in their arguments, but not
// this one's own.
func processesWith(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(content), text) {
			found = append(found, strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return found
}
