package seal

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
)

// Annotations of a SealedSecret that say whether it can stay.
const (
	annotationPrefix = "scaffold.kubeopera.io/"
	// annotationCertificate is the fingerprint of the certificate.
	annotationCertificate = annotationPrefix + "certificate-sha256"
	// annotationGiven is the digest of what the secret is made of, passwords that
	// are made here left out.
	annotationGiven = annotationPrefix + "given-digest"
	// annotationValues is the digest of the values.
	annotationValues = annotationPrefix + "values-digest"
	// annotationRotation names the rotation that the passwords come from.
	annotationRotation = annotationPrefix + "rotation"
)

type manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type spec struct {
	EncryptedData map[string]string `json:"encryptedData"`
	Template      template          `json:"template"`
}

type template struct {
	Metadata templateMetadata `json:"metadata"`
	Type     string           `json:"type,omitempty"`
}

type templateMetadata struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// sealed is a manifest in the tree.
type sealed struct {
	manifest                             manifest
	certificate, given, values, rotation string
}

// parse reads a manifest; nil if there is none that this package could have
// written.
func parse(data []byte) *sealed {
	if len(data) == 0 {
		return nil
	}
	s := &sealed{}
	if yaml.UnmarshalStrict(data, &s.manifest) != nil || s.manifest.Kind != "SealedSecret" {
		return nil
	}
	a := s.manifest.Metadata.Annotations
	s.certificate, s.given, s.values, s.rotation = a[annotationCertificate], a[annotationGiven], a[annotationValues], a[annotationRotation]
	return s
}

// fits says whether a manifest is for the Secret that is wanted.
func (s *sealed) fits(r gitopsenv.SealRequest) bool {
	keys := slices.Sorted(maps.Keys(r.Secret.Values))
	if r.Secret.Registry != nil {
		keys = []string{".dockerconfigjson"}
	}
	m := s.manifest
	return m.Metadata.Name == r.MetaName && m.Metadata.Namespace == r.MetaNamespace &&
		m.Spec.Template.Type == cmp.Or(r.Secret.Type, "Opaque") &&
		maps.Equal(m.Spec.Template.Metadata.Labels, r.Secret.Labels) &&
		slices.Equal(slices.Sorted(maps.Keys(m.Spec.EncryptedData)), keys)
}

// digester makes digests under a key. A digest says which key it is of, so that
// one of a lost key is not taken for that of another value.
type digester struct{ key []byte }

// keyID is the first half of a digest.
func (d digester) keyID() string {
	mac := hmac.New(sha256.New, d.key)
	mac.Write([]byte("key id"))
	return hex.EncodeToString(mac.Sum(nil)[:4])
}

// digest is that of some texts, each with its length, so that their borders
// count.
func (d digester) digest(texts []string) string {
	mac := hmac.New(sha256.New, d.key)
	for _, text := range texts {
		_ = binary.Write(mac, binary.BigEndian, uint64(len(text))) // a hash takes everything
		mac.Write([]byte(text))
	}
	return d.keyID() + ":" + hex.EncodeToString(mac.Sum(nil))
}

// same says whether texts have a digest.
func (d digester) same(digest string, texts []string) bool {
	return hmac.Equal([]byte(digest), []byte(d.digest(texts)))
}

// comparable says whether a digest is one under this key.
func (d digester) comparable(digest string) bool { return strings.HasPrefix(digest, d.keyID()+":") }
