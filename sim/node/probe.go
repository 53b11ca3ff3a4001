package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxProbePeriod keeps pods from being noticed late: the kubelet's ten seconds
// would only make tests slow.
const maxProbePeriod = time.Second

// probed tells whether a container's readiness is probed here. Of other kinds of
// probes there is none, and such a container is ready as soon as it runs.
func (c *container) probed() bool {
	p := c.spec.ReadinessProbe
	return p != nil && (p.HTTPGet != nil || p.TCPSocket != nil)
}

// startProbes watches a running container's readiness until it is stopped.
func (c *container) startProbes(ctx context.Context) (stop func()) {
	if !c.probed() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.watchReadiness(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// watchReadiness probes a running container until ctx ends.
func (c *container) watchReadiness(ctx context.Context) {
	p := c.spec.ReadinessProbe
	period := min(time.Duration(max(p.PeriodSeconds, 1))*time.Second, maxProbePeriod)
	pause := time.Duration(p.InitialDelaySeconds) * time.Second
	var good, bad int32
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = period
		err := c.probe(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			good, bad = 0, bad+1
			c.worker.event(corev1.EventTypeWarning, "Unhealthy", "Readiness probe failed: "+err.Error())
		} else {
			good, bad = good+1, 0
		}
		switch {
		case good >= max(p.SuccessThreshold, 1):
			c.setReady(true)
		case bad >= max(p.FailureThreshold, 1):
			c.setReady(false)
		}
	}
}

func (c *container) setReady(ready bool) {
	c.worker.mu.Lock()
	changed := c.ready != ready
	c.ready = ready
	c.worker.mu.Unlock()
	if changed {
		c.worker.touch()
	}
}

// probe asks once.
func (c *container) probe(ctx context.Context, p *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	if p.TCPSocket != nil {
		port, err := c.port(p.TCPSocket.Port)
		if err != nil {
			return err
		}
		connection, err := c.worker.dial(ctx, port)
		if err != nil {
			return err
		}
		return connection.Close()
	}
	port, err := c.port(p.HTTPGet.Port)
	if err != nil {
		return err
	}
	target := url.URL{
		Scheme: strings.ToLower(string(p.HTTPGet.Scheme)),
		Host:   net.JoinHostPort(c.worker.ip, strconv.Itoa(int(port))),
	}
	if target.Scheme == "" {
		target.Scheme = "http"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String()+"/"+strings.TrimPrefix(p.HTTPGet.Path, "/"), nil)
	if err != nil {
		return err
	}
	for _, header := range p.HTTPGet.HTTPHeaders {
		request.Header.Set(header.Name, header.Value)
	}
	// A redirect is as good an answer as any, and not followed.
	response, err := (&http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.worker.dial(ctx, port) },
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as the kubelet does
	}).RoundTrip(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
	}
	return nil
}

// port is the number of a port that a probe names.
func (c *container) port(port intstr.IntOrString) (uint16, error) {
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, p := range c.spec.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, errors.New("couldn't find port " + port.String())
	}
	return uint16(number), nil
}
