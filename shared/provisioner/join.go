package provisioner

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/kubeopera/platform/shared/provisioner/internal/script"
	"github.com/kubeopera/platform/shared/redact"
)

// joinControlPlanes joins the other control planes one at a time: etcd takes one
// new member at a time.
func (r *clusterRun) joinControlPlanes(ctx context.Context) {
	rest := r.role(roleControlPlane)
	for i, m := range rest {
		if m.joined {
			continue
		}
		r.each(ctx, rest[i:i+1], 1, PhaseJoining, r.join)
		if !m.going() && ctx.Err() == nil {
			others := slices.DeleteFunc(slices.Clone(rest[i+1:]), func(o *member) bool { return o.joined })
			r.skip(others, PhaseJoining, fmt.Errorf("control plane %s did not join; until it does, or is reset, no other may", m.info.Name))
			return
		}
	}
}

func (r *clusterRun) joinWorkers(ctx context.Context) {
	r.each(ctx, slices.DeleteFunc(r.role(roleWorker), func(m *member) bool { return m.joined }), r.parallel, PhaseJoining, r.join)
}

const kubeletConf = "/etc/kubernetes/kubelet.conf"

// join makes m part of the cluster, with a token of its own.
func (r *clusterRun) join(ctx context.Context, m *member) error {
	controlPlane := m.info.Role == roleControlPlane
	if controlPlane && r.existed && !m.initialized {
		if err := r.forget(ctx, m); err != nil {
			return err
		}
	}
	r.step(m, "join data")
	var key redact.Secret
	if controlPlane {
		key = newCertificateKey()
		r.masks.Add(key.Reveal())
	}
	var data joinData
	err := r.viaControlPlane(ctx, func(c *machine) (err error) {
		data, err = r.joinData(ctx, c, key)
		return err
	})
	if err != nil {
		return err
	}
	params := script.JoinParameters{
		Node: m.node(), Endpoint: data.Endpoint, Token: data.Token, CACertHash: data.hash, CertificateKey: key,
	}
	render := script.JoinWorker
	if controlPlane {
		render = script.JoinControlPlane
	}
	step, err := render(r.env, params)
	if err != nil {
		return err
	}
	r.step(m, step.Name)
	if err := m.machine.runUntil(ctx, step, "-e "+kubeletConf); err != nil {
		return err
	}
	m.joined = true
	return nil
}

// forget takes out of the cluster what an earlier machine of m's name or address
// has left: etcd takes no new member while a dead one may be missed.
func (r *clusterRun) forget(ctx context.Context, m *member) error {
	step, err := script.Forget(r.env, m.node())
	if err != nil {
		return err
	}
	r.step(m, step.Name)
	return r.viaControlPlane(ctx, func(c *machine) error { return c.run(ctx, step) })
}

// joinData is what a node needs to join.
type joinData struct {
	Token         redact.Secret `json:"token"`
	CACertificate string        `json:"caCertificate"` // PEM
	Endpoint      string        `json:"endpoint"`      // host:port
	hash          string
}

func (r *clusterRun) joinData(ctx context.Context, c *machine, key redact.Secret) (joinData, error) {
	var data joinData
	step, err := script.JoinData(r.env, key)
	if err != nil {
		return data, err
	}
	out, err := c.query(ctx, step)
	if err != nil {
		return data, err
	}
	if err := decode("join data", out, &data); err != nil {
		return data, err
	}
	r.masks.Add(data.Token.Reveal())
	if !tokenForm.MatchString(data.Token.Reveal()) {
		return data, errors.New("join data: the token is not of the form of a bootstrap token")
	}
	if data.Endpoint == "" {
		return data, errors.New("join data: the cluster has no endpoint")
	}
	if data.hash, err = caCertHash([]byte(data.CACertificate)); err != nil {
		return data, fmt.Errorf("join data: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cp.JoinToken, r.cp.CACertHash = data.Token.Reveal(), data.hash
	if key != "" {
		r.cp.CertificateKey = key.Reveal()
	}
	// What the cluster itself says: it may have been made with another one.
	if r.cp.ControlPlaneEndpoint != data.Endpoint {
		r.cp.ControlPlaneEndpoint, r.cp.found = data.Endpoint, true
	}
	return data, nil
}

var tokenForm = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// newCertificateKey is what kubeadm encrypts a cluster's certificates with: 32
// bytes in hexadecimal.
func newCertificateKey() redact.Secret {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // crypto/rand never fails
	return redact.Secret(hex.EncodeToString(key))
}

// caCertHash is kubeadm's pin of a CA: sha256 of its certificate's public key, of
// whatever type.
func caCertHash(data []byte) (string, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return "", errors.New("the CA is no PEM certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("the CA: %w", err)
	}
	if !cert.IsCA {
		return "", errors.New("the CA's certificate is not that of a CA")
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// viaControlPlane asks a control plane: the live one, or, if its API does not
// answer, the next that does. One that was lost is not tried again.
func (r *clusterRun) viaControlPlane(ctx context.Context, do func(*machine) error) error {
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.mu.Lock()
	candidates := []*member{r.live}
	r.mu.Unlock()
	for _, m := range r.members {
		if m.info.Role == roleControlPlane && m.joined && m.machine != nil && m != candidates[0] {
			candidates = append(candidates, m)
		}
	}
	var errs []error
	for _, m := range candidates {
		r.mu.Lock()
		gone := m.gone
		r.mu.Unlock()
		if gone != nil {
			errs = append(errs, gone)
			continue
		}
		err := do(m.machine)
		if err == nil {
			r.mu.Lock()
			r.live = m
			r.mu.Unlock()
			return nil
		}
		var away *UnreachableError
		lost := errors.As(err, &away)
		if ctx.Err() != nil || !lost && m.machine.apiReady(ctx) == nil {
			return err // it is not the control plane's fault
		}
		err = fmt.Errorf("by node %s: %w", m.info.Name, err)
		if lost { // it has been tried for long enough, for others too
			r.mu.Lock()
			m.gone = err
			r.mu.Unlock()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// cutOff says that no control plane can be reached any more.
func (r *clusterRun) cutOff() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live.gone != nil && !slices.ContainsFunc(r.members, func(m *member) bool {
		return m.info.Role == roleControlPlane && m.joined && m.machine != nil && m.gone == nil
	})
}
