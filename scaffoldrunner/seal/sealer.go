package seal

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bitnami-labs/sealed-secrets/pkg/crypto"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/shared/redact"
)

// Ref names a Secret on a cluster.
type Ref struct{ Namespace, Name string }

func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Config is what a Sealer needs.
type Config struct {
	// Certificate is the target's controller's.
	Certificate *Certificate
	// DigestKey is the key of the digests in annotations: at least 32 bytes, the
	// same for every run of an environment.
	DigestKey redact.Secret
	// RegistryPassword is the password of the login at the registry.
	RegistryPassword redact.Secret
	// Live are the Secrets that the target has, by key: all that could be read.
	Live map[Ref]map[string][]byte
	// Rotation, if not empty, asks for new passwords and names the request: a
	// secret that has been through it is not rotated again. It is a DNS label, such
	// as a run's id.
	Rotation string
	// Mask, if set, is told every plaintext before it is used.
	Mask func(secrets ...string)
}

// Sealer makes the sealed secrets of one environment, for one controller. It is
// good for one call of Seal, so that a password is made once.
type Sealer struct {
	config    Config
	digests   digester
	passwords map[string]string // by id
}

var _ gitopsenv.Sealer = (*Sealer)(nil)

const minDigestKey = 32

// New is a Sealer.
func New(c Config) (*Sealer, error) {
	switch {
	case c.Certificate == nil:
		return nil, errors.New("a sealer needs a certificate")
	case len(c.DigestKey) < minDigestKey:
		return nil, fmt.Errorf("the digest key must have at least %d bytes", minDigestKey)
	case c.RegistryPassword == "":
		return nil, errors.New("the registry's password is missing")
	}
	if c.Mask == nil {
		c.Mask = func(...string) {}
	}
	return &Sealer{config: c, digests: digester{key: []byte(c.DigestKey.Reveal())}, passwords: map[string]string{}}, nil
}

// UnknownValueError is for a secret that has to be sealed again, while nobody
// knows a password in it: the tree has it only for a key that is another
// controller's, and the cluster does not have it. Making a new one could lock its
// users out, so that somebody has to say so: Config.Rotation does.
type UnknownValueError struct {
	Ref    Ref
	Reason string // why it cannot stay as it is
	Detail string // why the value is not known
}

func (e *UnknownValueError) Error() string {
	return fmt.Sprintf("secret %s has to be sealed again, since %s, but %s; ask for a rotation of secrets if new passwords are right", e.Ref, e.Reason, e.Detail)
}

// maxPlaintext is what fits into an object: sealing adds a third.
const maxPlaintext = 700 << 10 // bytes

// Seal implements gitopsenv.Sealer.
func (s *Sealer) Seal(requests []gitopsenv.SealRequest) ([][]byte, error) {
	s.config.Mask(s.config.RegistryPassword.Reveal())
	current := make([]*sealed, len(requests))
	reasons := make([]string, len(requests))
	for i, r := range requests {
		current[i] = parse(r.Current)
		reasons[i] = s.reason(r, current[i])
	}
	if err := s.choose(requests, current, reasons); err != nil {
		return nil, err
	}
	manifests := make([][]byte, len(requests))
	for i, r := range requests {
		if reasons[i] == "" {
			manifests[i] = r.Current
			continue
		}
		m, err := s.manifest(r)
		if err != nil {
			return nil, fmt.Errorf("seal secret %s: %w", ref(r.Secret), err)
		}
		manifests[i] = m
	}
	return manifests, nil
}

func ref(secret gitopsenv.Secret) Ref { return Ref{secret.Namespace, secret.Name} }

// reason says why a secret has to be sealed; empty if it can stay.
func (s *Sealer) reason(r gitopsenv.SealRequest, current *sealed) string {
	switch {
	case current == nil:
		return "the tree does not have it"
	case !current.fits(r):
		return "it is made of something else now"
	case current.certificate != s.config.Certificate.Fingerprint:
		return "the controller's certificate is another one"
	case !s.digests.same(current.given, s.given(r.Secret)):
		return "what it is made of has changed"
	case s.rotates(r.Secret, current):
		return "a rotation was asked for"
	}
	return ""
}

// rotates says whether a secret gets new passwords instead of those that it has.
func (s *Sealer) rotates(secret gitopsenv.Secret, current *sealed) bool {
	return s.config.Rotation != "" && current != nil && current.rotation != s.config.Rotation && len(passwordIDs(secret)) > 0
}

// passwordIDs are the ids of the passwords in a secret, sorted.
func passwordIDs(secret gitopsenv.Secret) []string {
	ids := map[string]bool{}
	for _, value := range secret.Values {
		for _, part := range value {
			if part.Password != "" {
				ids[part.Password] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// choose decides what every password is that is needed: the live one, or a new
// one if there has never been one, or if it is rotated.
//
// A password that several secrets share is one decision: if a rotation was cut
// short between two of them, all of them have to be made again.
func (s *Sealer) choose(requests []gitopsenv.SealRequest, current []*sealed, reasons []string) error {
	holders := map[string][]int{} // requests by password id
	for i, r := range requests {
		for _, id := range passwordIDs(r.Secret) {
			holders[id] = append(holders[id], i)
		}
	}
	// New passwords spread: whoever shares one with a rotated secret is made again
	// itself, and with it whatever else it holds is looked up.
	for changed := true; changed; {
		changed = false
		for _, id := range slices.Sorted(maps.Keys(holders)) {
			if !slices.ContainsFunc(holders[id], func(i int) bool { return s.rotates(requests[i].Secret, current[i]) }) {
				continue
			}
			for _, i := range holders[id] {
				if reasons[i] == "" {
					reasons[i] = "a rotation was asked for"
					current[i] = &sealed{manifest: current[i].manifest} // rotates with the others
					changed = true
				}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(holders)) {
		needed := slices.ContainsFunc(holders[id], func(i int) bool { return reasons[i] != "" })
		if !needed {
			continue
		}
		password, err := s.password(id, holders[id], requests, current, reasons)
		if err != nil {
			return err
		}
		s.config.Mask(password)
		s.passwords[id] = password
	}
	return nil
}

// password is the one that goes by an id.
func (s *Sealer) password(id string, holders []int, requests []gitopsenv.SealRequest, current []*sealed, reasons []string) (string, error) {
	if slices.ContainsFunc(holders, func(i int) bool { return s.rotates(requests[i].Secret, current[i]) }) {
		return Password(), nil
	}
	detail := "its live Secret is not on the cluster"
	inTree := false
	reason, at := "", Ref{}
	for _, i := range holders {
		if current[i] == nil {
			continue
		}
		inTree = true
		reason, at = cmp.Or(reasons[i], reason), ref(requests[i].Secret)
		value, ok := live(requests[i].Secret, s.config.Live[at], id)
		if !ok {
			continue
		}
		// The live Secret may be older than the tree: then it is not what was sealed.
		if digest := s.values(requests[i].Secret, s.config.Live[at]); !s.digests.same(current[i].values, digest) && s.digests.comparable(current[i].values) {
			detail = "its live Secret is not what the tree has: wait until the controller has opened that"
			continue
		}
		return value, nil
	}
	if inTree {
		return "", &UnknownValueError{Ref: at, Reason: cmp.Or(reason, "another secret needs a password of its"), Detail: detail}
	}
	// A tree without it, on a cluster that has it: the cluster's is in use.
	for _, i := range holders {
		if value, ok := live(requests[i].Secret, s.config.Live[ref(requests[i].Secret)], id); ok {
			return value, nil
		}
	}
	return Password(), nil
}

// live finds a password in a live Secret: in a value that is made of text and
// that one password.
func live(secret gitopsenv.Secret, data map[string][]byte, id string) (string, bool) {
	for _, key := range slices.Sorted(maps.Keys(secret.Values)) {
		value, ok := data[key]
		if !ok {
			continue
		}
		before, after, found := "", "", 0
		for _, part := range secret.Values[key] {
			switch {
			case part.Password == id && !part.SHA256:
				found++
			case part.Password != "":
				found += 2 // another unknown: this value says nothing
			case found == 0:
				before += part.Text
			default:
				after += part.Text
			}
		}
		text := string(value)
		if found != 1 || len(text) <= len(before)+len(after) || !strings.HasPrefix(text, before) || !strings.HasSuffix(text, after) {
			continue
		}
		return text[len(before) : len(text)-len(after)], true
	}
	return "", false
}

// given is what a secret is made of that is not made here.
func (s *Sealer) given(secret gitopsenv.Secret) []string {
	fields := []string{secret.Namespace, secret.Name, secret.Type}
	for _, key := range slices.Sorted(maps.Keys(secret.Labels)) {
		fields = append(fields, "label", key, secret.Labels[key])
	}
	for _, key := range slices.Sorted(maps.Keys(secret.Values)) {
		fields = append(fields, "key", key)
		for _, part := range secret.Values[key] {
			fields = append(fields, "text", part.Text, part.Password, fmt.Sprint(part.SHA256))
		}
	}
	if r := secret.Registry; r != nil {
		fields = append(fields, "registry", r.Server, r.Username, s.config.RegistryPassword.Reveal())
	}
	return fields
}

// values are a secret's plaintexts, as digested.
func (s *Sealer) values(secret gitopsenv.Secret, plain map[string][]byte) []string {
	fields := []string{secret.Namespace, secret.Name}
	for _, key := range slices.Sorted(maps.Keys(secret.Values)) {
		fields = append(fields, key, string(plain[key]))
	}
	return fields
}

// plaintext are the values of a secret.
func (s *Sealer) plaintext(secret gitopsenv.Secret) (map[string][]byte, error) {
	plain := map[string][]byte{}
	if secret.Registry != nil {
		config, err := dockerConfig(*secret.Registry, s.config.RegistryPassword.Reveal())
		if err != nil {
			return nil, err
		}
		plain[".dockerconfigjson"] = config
	}
	size := 0
	for key, value := range secret.Values {
		var text bytes.Buffer
		for _, part := range value {
			switch {
			case part.Password == "":
				text.WriteString(part.Text)
			case part.SHA256:
				sum := sha256.Sum256([]byte(s.passwords[part.Password]))
				text.WriteString(hex.EncodeToString(sum[:]))
			default:
				text.WriteString(s.passwords[part.Password])
			}
		}
		plain[key] = text.Bytes()
		size += text.Len()
	}
	if size > maxPlaintext {
		return nil, fmt.Errorf("%d bytes are more than a sealed secret holds", size)
	}
	return plain, nil
}

// manifest seals a secret.
func (s *Sealer) manifest(r gitopsenv.SealRequest) ([]byte, error) {
	plain, err := s.plaintext(r.Secret)
	if err != nil {
		return nil, err
	}
	m := manifest{
		APIVersion: "bitnami.com/v1alpha1",
		Kind:       "SealedSecret",
		Metadata: metadata{
			Name:      r.MetaName,
			Namespace: r.MetaNamespace,
			Annotations: map[string]string{
				annotationCertificate: s.config.Certificate.Fingerprint,
				annotationGiven:       s.digests.digest(s.given(r.Secret)),
				annotationValues:      s.digests.digest(s.values(r.Secret, plain)),
			},
		},
		Spec: spec{EncryptedData: map[string]string{}, Template: template{
			Type:     cmp.Or(r.Secret.Type, "Opaque"),
			Metadata: templateMetadata{Labels: r.Secret.Labels},
		}},
	}
	if s.config.Rotation != "" && len(passwordIDs(r.Secret)) > 0 {
		m.Metadata.Annotations[annotationRotation] = s.config.Rotation
	}
	// Strict scope: only a Secret of this name in this namespace opens.
	scope := []byte(r.Secret.Namespace + "/" + r.Secret.Name)
	for key, value := range plain {
		encrypted, err := crypto.HybridEncrypt(rand.Reader, s.config.Certificate.key, value, scope)
		if err != nil {
			return nil, fmt.Errorf("encrypt %s: %w", key, err)
		}
		m.Spec.EncryptedData[key] = base64.StdEncoding.EncodeToString(encrypted)
	}
	return yaml.Marshal(m)
}
