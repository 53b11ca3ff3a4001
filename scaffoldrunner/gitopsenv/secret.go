package gitopsenv

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// Secret is a Secret that the environment needs, read from its like in the
// development tree. The development tree's values say what is what, and go
// nowhere:
//
//   - the value of a key that is named like a password is one: a fresh one is
//     made, and values that are equal in the development tree are equal again;
//   - a value that has a password in it, or the password's SHA-256 in
//     hexadecimal, is made again around the fresh one;
//   - the value of a key that is named like a user name, a host or the like is
//     kept;
//   - a Secret of type kubernetes.io/dockerconfigjson is the login at the
//     registry of the inputs.
//
// Anything else is an error: it cannot be made up.
type Secret struct {
	// Namespace and Name are those on the cluster, after kustomize: a strict scope
	// binds them.
	Namespace, Name string
	// Type is the Secret's type; empty for Opaque.
	Type string
	// Labels are the Secret's labels.
	Labels map[string]string
	// Values are what the Secret holds, by key.
	Values map[string]Value
	// Registry is the login whose configuration .dockerconfigjson holds, instead
	// of Values.
	Registry *Registry
}

// Value is the concatenation of its parts.
type Value []Part

// Part is a part of a value: text as it is, or a password.
type Part struct {
	Text string
	// Password, if not empty, is the id of a password: the same id is the same
	// password everywhere in the tree.
	Password string
	// SHA256 is for the password's SHA-256 in hexadecimal instead of itself.
	SHA256 bool
}

// SealRequest asks for one sealed secret.
type SealRequest struct {
	Secret Secret
	// MetaNamespace and MetaName are what the manifest says, which kustomize may
	// turn into the Secret's own.
	MetaNamespace, MetaName string
	// Current is the manifest in the tree; nil if there is none.
	Current []byte
}

// Sealer makes the manifests of sealed secrets.
type Sealer interface {
	// Seal gives a SealedSecret for every request, in order: the current one,
	// byte for byte, unless it has to change.
	Seal(requests []SealRequest) ([][]byte, error)
}

var (
	passwordKey = regexp.MustCompile(`(?i)(^|[._-])(pass(word|wd|phrase)?|pwd|secret|token|cookie|api[._-]?key)$`)
	plainKey    = regexp.MustCompile(`(?i)(^|[._-])(user(name)?|login|host(name)?|port|db(name)?|database|server|email|name|vhost|region)$`)
)

const dockerConfigType = "kubernetes.io/dockerconfigjson"

// development is a Secret of the development tree.
type development struct {
	object manifest.Object // as written
	sealed bool
	secret Secret // as rendered; Values are made later
	plain  map[string]string
}

// readSecret is the Secret in a manifest of the development tree.
func readSecret(o manifest.Object) (development, error) {
	d := development{object: o, sealed: o.Kind == "SealedSecret", plain: map[string]string{}}
	d.secret = Secret{Namespace: o.Namespace, Name: o.Name}
	template := o.Fields
	if d.sealed {
		template, _ = manifest.Get[map[string]any](o.Fields, "spec", "template")
		encrypted, _ := manifest.Get[map[string]any](o.Fields, "spec", "encryptedData")
		for key := range encrypted {
			d.plain[key] = ""
		}
	}
	d.secret.Type, _ = manifest.Get[string](template, "type")
	labels, _ := manifest.Get[map[string]any](template, "metadata", "labels")
	for key, value := range labels {
		if d.secret.Labels == nil {
			d.secret.Labels = map[string]string{}
		}
		d.secret.Labels[key], _ = value.(string)
	}
	if d.sealed {
		return d, nil
	}
	data, _ := manifest.Get[map[string]any](o.Fields, "data")
	for key, value := range data {
		text, _ := value.(string)
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return development{}, fmt.Errorf("%s: data.%s is not base64", o, key)
		}
		d.plain[key] = string(raw)
	}
	stringData, _ := manifest.Get[map[string]any](o.Fields, "stringData")
	for key, value := range stringData {
		text, ok := value.(string)
		if !ok {
			return development{}, fmt.Errorf("%s: stringData.%s is not a string", o, key)
		}
		d.plain[key] = text
	}
	return d, nil
}

// isSecret says whether an object's content is replaced by a sealed one.
func isSecret(o manifest.Object) bool {
	return o.Is("", "Secret") || o.Is("bitnami.com", "SealedSecret")
}

// plan says what each Secret's values are made of. Secrets come in the order in
// which they are read, which decides the ids of passwords.
func plan(secrets []*development, registry Registry) error {
	type atom struct{ id, plain string }
	var atoms []atom
	known := map[string]string{} // id by plaintext
	add := func(id, plain string) string {
		if plain == "" {
			return id
		}
		if known[plain] == "" {
			known[plain] = id
			atoms = append(atoms, atom{id, plain})
		}
		return known[plain]
	}
	for _, d := range secrets {
		if d.secret.Type == dockerConfigType {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(d.plain)) {
			id := d.secret.Namespace + "/" + d.secret.Name + "/" + key
			if passwordKey.MatchString(key) {
				add(id, d.plain[key])
			} else if u, err := url.Parse(d.plain[key]); err == nil && u.User != nil {
				if password, ok := u.User.Password(); ok {
					add(id, password)
				}
			}
		}
	}
	// Longest first, so that a password that is part of another is no match in it.
	slices.SortStableFunc(atoms, func(a, b atom) int { return len(b.plain) - len(a.plain) })

	var errs []error
	for _, d := range secrets {
		if d.secret.Type == dockerConfigType {
			r := registry
			d.secret.Registry = &r
			continue
		}
		d.secret.Values = map[string]Value{}
		for _, key := range slices.Sorted(maps.Keys(d.plain)) {
			plain := d.plain[key]
			id := d.secret.Namespace + "/" + d.secret.Name + "/" + key
			switch {
			case passwordKey.MatchString(key):
				if strings.Contains(plain, "PRIVATE KEY-----") {
					errs = append(errs, fmt.Errorf("%s: %s is a private key, which cannot be made up", d.object, key))
					continue
				}
				d.secret.Values[key] = Value{{Password: add(id, plain)}}
			case d.sealed:
				errs = append(errs, fmt.Errorf("%s: %s is sealed for another cluster and not named like a password, so that nobody knows what it has to be", d.object, key))
			default:
				value := Value{{Text: plain}}
				for _, a := range atoms {
					value = value.replace(a.plain, Part{Password: a.id})
					digest := sha256.Sum256([]byte(a.plain))
					value = value.replace(hex.EncodeToString(digest[:]), Part{Password: a.id, SHA256: true})
				}
				if len(value) == 1 && value[0].Password == "" && !plainKey.MatchString(key) {
					errs = append(errs, fmt.Errorf("%s: %s is neither a password nor made from one, so that it cannot be made up", d.object, key))
					continue
				}
				d.secret.Values[key] = value
			}
		}
	}
	return errors.Join(errs...)
}

// replace puts a part where a text is.
func (v Value) replace(text string, part Part) Value {
	var out Value
	for _, p := range v {
		if p.Password != "" {
			out = append(out, p)
			continue
		}
		for i, piece := range strings.Split(p.Text, text) {
			if i > 0 {
				out = append(out, part)
			}
			if piece != "" || (i == 0 && p.Text == "") {
				out = append(out, Part{Text: piece})
			}
		}
	}
	return out
}
