package target

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	certificatePath = "/v1/cert.pem"
	// maxCertificate is how much of an answer is read, in bytes.
	maxCertificate = 64 << 10
	// A cluster whose control plane does not reach the pod lets a request through the
	// API server hang for up to two minutes.
	attemptTimeout = 10 * time.Second
	attempts       = 3
	attemptPause   = 2 * time.Second
)

// CertificateError is for a certificate that could be had by neither way.
type CertificateError struct{ Proxy, Forward error }

// Error says why not, by each way, and what would help.
func (e *CertificateError) Error() string {
	return fmt.Sprintf("through the API server's service proxy: %v; by port-forward: %v", e.Proxy, e.Forward)
}

// Unwrap gives both.
func (e *CertificateError) Unwrap() []error { return []error{e.Proxy, e.Forward} }

// Certificate fetches the certificate of a controller that is Available, as it is:
// through the API server's service proxy or, where that does not reach the pod,
// through the kubelet as `kubectl port-forward` does. check says what is wrong with
// an answer, and whether it may be a passing state of the controller.
func (c *Cluster) Certificate(ctx context.Context, controller *Controller, check func([]byte) (passing bool, err error), log func(format string, args ...any)) ([]byte, error) {
	find, cancel := context.WithTimeout(ctx, callTimeout)
	service, port, target, err := c.service(find, controller)
	cancel()
	if err != nil {
		return nil, err
	}
	ways := []struct {
		name  string
		fetch func(context.Context) ([]byte, error)
	}{
		{"the service proxy", func(ctx context.Context) ([]byte, error) { return c.proxied(ctx, controller.Namespace, service, port) }},
		{"port-forward", func(ctx context.Context) ([]byte, error) { return c.forwarded(ctx, controller, target) }},
	}
	failed := make([]error, len(ways))
	for i, way := range ways {
		for n := 1; n <= attempts; n++ {
			attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
			data, err := way.fetch(attempt)
			cancel()
			if err == nil {
				passing := false
				if passing, err = check(data); err == nil {
					return data, nil
				}
				if !passing {
					return nil, err
				}
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			failed[i] = err
			log("certificate by %s, attempt %d of %d: %v", way.name, n, attempts, err)
			if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) {
				break // the same answer would come again
			}
			if n == attempts {
				break
			}
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(attemptPause):
			}
		}
	}
	return nil, &CertificateError{Proxy: failed[0], Forward: failed[1]}
}

// proxied asks through the API server. The port goes by its name: that is what the
// chart's Role allows.
func (c *Cluster) proxied(ctx context.Context, namespace, service, port string) ([]byte, error) {
	stream, err := c.client.CoreV1().Services(namespace).ProxyGet("http", service, port, certificatePath, nil).Stream(ctx)
	switch {
	case err == nil:
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the kubeconfig's user may not use services/proxy in %s: %w", namespace, err)
	case apierrors.IsServiceUnavailable(err), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("the control plane does not reach the pod: let it reach the nodes on TCP %d, which some security groups do not: %w", httpPort, err)
	default:
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	return io.ReadAll(io.LimitReader(stream, maxCertificate))
}

// forwarded asks through the kubelet of the node that the controller's pod is on.
func (c *Cluster) forwarded(ctx context.Context, controller *Controller, target intstr.IntOrString) ([]byte, error) {
	pods, err := c.pods(ctx, controller.deployment)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 || running(pods[0]) == 0 {
		return nil, errors.New("the controller has no pod that runs")
	}
	type answer struct {
		data []byte
		err  error
	}
	answers := make(chan answer, 1)
	// The dialer knows no context: late, it is left alone.
	go func() {
		data, err := c.throughPod(ctx, pods[0], podPort(pods[0], target))
		answers <- answer{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer in %s", attemptTimeout)
	case a := <-answers:
		return a.data, a.err
	}
}

// podPort is a Service's target port by number.
func podPort(pod corev1.Pod, target intstr.IntOrString) int {
	if target.Type == intstr.Int && target.IntVal != 0 {
		return int(target.IntVal)
	}
	for _, container := range pod.Spec.Containers {
		i := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == target.StrVal })
		if i >= 0 && target.StrVal != "" {
			return int(container.Ports[i].ContainerPort)
		}
	}
	return httpPort
}

// throughPod makes one HTTP request on a connection to a pod's port, without a port
// of this machine.
func (c *Cluster) throughPod(ctx context.Context, pod corev1.Pod, port int) ([]byte, error) {
	url := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	roundTripper, upgrader, err := spdy.RoundTripperFor(c.rest)
	if err != nil {
		return nil, err
	}
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, c.rest)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialerForStreaming(websocket, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, url),
		func(err error) bool { return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) })
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	errorStream, err := conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = errorStream.Close() // nothing is sent on it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(data, "GET "+certificatePath+" HTTP/1.1\r\nHost: sealed-secrets\r\nConnection: close\r\n\r\n"); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(data), nil)
	if err != nil {
		said, _ := io.ReadAll(io.LimitReader(errorStream, 1<<10)) // why there is no answer
		if len(said) > 0 {
			return nil, errors.New(strings.TrimSpace(string(said)))
		}
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the controller answers %s", response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxCertificate))
}
