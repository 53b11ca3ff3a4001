package gitops_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/kubeopera/platform/sim/gitops"
	"github.com/kubeopera/platform/sim/gitops/gitopstest"
)

// TestSealedSecrets uses the real controller in every way that a scaffold does.
func TestSealedSecrets(t *testing.T) {
	target := gitopstest.Start(t)
	controller := gitops.Controller{Namespace: "kube-system", Name: "sealed-secrets-controller"}
	target.SetControllerArgs("--key-size=2048") // 4096 bits take up to half a minute on a busy machine
	started := time.Now()
	if err := target.InstallSealedSecrets(t.Context(), controller); err != nil {
		t.Fatal(err)
	}
	awaitAvailable(t, target, controller)
	t.Logf("controller available after %s", time.Since(started).Round(time.Millisecond))

	certificate := proxied(t, target, controller)
	if got := parse(t, certificate); got.NotAfter.Before(time.Now()) {
		t.Errorf("the certificate ended at %s", got.NotAfter)
	}

	t.Run("a sealed Secret becomes one", func(t *testing.T) {
		create(t, target, seal(t, target, certificate, "default", "postgres", "password", "hunter2 & co"))
		if got := string(secret(t, target, "default", "postgres").Data["password"]); got != "hunter2 & co" {
			t.Errorf("password is %q", got)
		}
	})
	t.Run("one sealed for another name stays closed", func(t *testing.T) {
		sealed := seal(t, target, certificate, "default", "rabbitmq", "password", "hunter2")
		create(t, target, strings.Replace(sealed, "name: rabbitmq", "name: stolen", 2))
		until(t, "the controller says that it cannot open it", func(ctx context.Context) (bool, string) {
			body, err := target.Kubernetes().CoreV1().RESTClient().Get().
				AbsPath("/apis/bitnami.com/v1alpha1/namespaces/default/sealedsecrets/stolen").DoRaw(ctx)
			return strings.Contains(string(body), "no key could decrypt"), fmt.Sprint(string(body), err)
		})
	})
	t.Run("the kubeconfig works for kubeseal", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), target.Tools().Kubeseal(), "--fetch-cert", "--kubeconfig", kubeconfigFile(t, target),
			"--controller-namespace", controller.Namespace, "--controller-name", controller.Name)
		cmd.Env = []string{"HOME=" + t.TempDir()}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(describe(err))
		}
		if string(out) != string(certificate) {
			t.Errorf("kubeseal fetched another certificate:\n%s", out)
		}
	})
	t.Run("a port can be forwarded", func(t *testing.T) {
		if got := forwarded(t, target, controller); string(got) != string(certificate) {
			t.Errorf("another certificate:\n%s", got)
		}
	})
	t.Run("a blocked service proxy leaves the forwarded port", func(t *testing.T) {
		target.Pods().Block(500 * time.Millisecond)
		defer target.Pods().Unblock()
		_, err := target.Kubernetes().CoreV1().Services(controller.Namespace).
			ProxyGet("http", controller.Name, "http", "/v1/cert.pem", nil).DoRaw(t.Context())
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("the proxy answers %v, want 503", err)
		}
		if got := forwarded(t, target, controller); string(got) != string(certificate) {
			t.Errorf("another certificate:\n%s", got)
		}
	})
	t.Run("an unblocked one works again", func(t *testing.T) { proxied(t, target, controller) })
	t.Run("a second controller has a certificate of its own, expired if told so", func(t *testing.T) {
		second := gitops.Controller{
			Namespace: "second", Name: "sealed-secrets", Labels: map[string]string{"app.kubernetes.io/name": "sealed-secrets"},
			Args: []string{"--key-ttl=1s"},
		}
		if err := target.InstallSealedSecrets(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		awaitAvailable(t, target, second)
		other := proxied(t, target, second)
		if string(other) == string(certificate) {
			t.Error("both have the same certificate")
		}
		until(t, "its certificate has expired", func(context.Context) (bool, string) {
			end := parse(t, other).NotAfter
			return end.Before(time.Now()), end.String()
		})
	})
}

// describe adds what a program said to its error.
func describe(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Sprintf("%v: %s", err, exit.Stderr)
	}
	return err.Error()
}

func awaitAvailable(t *testing.T, target *gitops.Target, c gitops.Controller) {
	t.Helper()
	until(t, "the controller is available", func(ctx context.Context) (bool, string) {
		d, err := target.Kubernetes().AppsV1().Deployments(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 1, fmt.Sprint(d.Status, err)
	})
}

// proxied is the certificate that the API server's service proxy gives.
func proxied(t *testing.T, target *gitops.Target, c gitops.Controller) []byte {
	t.Helper()
	var certificate []byte
	until(t, "the service proxy gives the certificate", func(ctx context.Context) (bool, string) {
		var err error
		certificate, err = target.Kubernetes().CoreV1().Services(c.Namespace).ProxyGet("http", c.Name, "http", "/v1/cert.pem", nil).DoRaw(ctx)
		return err == nil, fmt.Sprint(err) // the slice of endpoints follows the pod a moment later
	})
	return certificate
}

// forwarded is the certificate that a forwarded port of the pod gives.
func forwarded(t *testing.T, target *gitops.Target, c gitops.Controller) []byte {
	t.Helper()
	pods, err := target.Kubernetes().CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "name=sealed-secrets-controller"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods of the controller, %v", len(pods.Items), err)
	}
	kubeconfig, err := target.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	url := target.Kubernetes().CoreV1().RESTClient().Post().
		Resource("pods").Namespace(c.Namespace).Name(pods.Items[0].Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.New(dialer, []string{"0:8080"}, stop, ready, io.Discard, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	defer func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+net.JoinHostPort("127.0.0.1", fmt.Sprint(ports[0].Local))+"/v1/cert.pem", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", response.Status, err)
	}
	return body
}

func kubeconfigFile(t *testing.T, target *gitops.Target) string {
	t.Helper()
	kubeconfig, err := target.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// seal makes a SealedSecret with upstream's program, as YAML.
func seal(t *testing.T, target *gitops.Target, certificate []byte, namespace, name, key, value string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), target.Tools().Kubeseal(), "--cert", file, "--format", "yaml")
	cmd.Env = []string{"HOME=" + t.TempDir()}
	cmd.Stdin = strings.NewReader(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {namespace: %s, name: %s}\nstringData: {%s: %q}\n", namespace, name, key, value))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(describe(err))
	}
	return string(out)
}

// create sends a SealedSecret, as YAML, to the API server.
func create(t *testing.T, target *gitops.Target, sealed string) {
	t.Helper()
	_, err := target.Kubernetes().CoreV1().RESTClient().Post().AbsPath("/apis/bitnami.com/v1alpha1/namespaces/default/sealedsecrets").
		SetHeader("Content-Type", "application/yaml").Body([]byte(sealed)).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T, certificate []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(certificate)
	if block == nil {
		t.Fatalf("no certificate: %s", certificate)
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
