package seal_test

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bitnami-labs/sealed-secrets/pkg/apis/sealedsecrets/v1alpha1"
	"github.com/bitnami-labs/sealed-secrets/pkg/crypto"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/seal"
	"github.com/kubeopera/platform/shared/redact"
)

// controller is the half of a sealed-secrets controller that opens secrets.
type controller struct {
	keys map[string]*rsa.PrivateKey
	pem  []byte
}

// Keys of 2048 bits, since those that controllers make take seconds. All tests
// share two controllers.
var controllers = sync.OnceValue(func() (both [2]controller) {
	for i := range both {
		key, cert, err := crypto.GeneratePrivateKeyAndCert(2048, 10*365*24*time.Hour, "")
		if err != nil {
			panic(err)
		}
		fingerprint, err := crypto.PublicKeyFingerprint(&key.PublicKey)
		if err != nil {
			panic(err)
		}
		both[i] = controller{
			keys: map[string]*rsa.PrivateKey{fingerprint: key},
			pem:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		}
	}
	return both
})

func (c controller) certificate(tb testing.TB) *seal.Certificate {
	tb.Helper()
	cert, err := seal.ParseCertificate(c.pem, time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	return cert
}

// open does what upstream's controller does with a manifest.
func (c controller) open(manifest []byte) (map[string]string, string, error) {
	var sealed v1alpha1.SealedSecret
	if err := yaml.UnmarshalStrict(manifest, &sealed); err != nil {
		return nil, "", err
	}
	secret, err := sealed.Unseal(serializer.NewCodecFactory(scheme.Scheme), c.keys)
	if err != nil {
		return nil, "", err
	}
	values := map[string]string{}
	for key, value := range secret.Data {
		values[key] = string(value)
	}
	return values, string(secret.Type), nil
}

const digestKey = redact.Secret("0123456789abcdef0123456789abcdef")

const registryPassword = "a\"b'c\n$d\\"

var (
	registry = gitopsenv.Registry{Server: "registry.example.com:5000", Username: "robot"}

	postgres = gitopsenv.Secret{Namespace: "data", Name: "postgres", Type: "kubernetes.io/basic-auth", Values: map[string]gitopsenv.Value{
		"username": {{Text: "kubeopera"}},
		"password": {{Password: "pg"}},
	}}
	client = gitopsenv.Secret{Namespace: "core", Name: "postgres", Labels: map[string]string{"a": "b"}, Values: map[string]gitopsenv.Value{
		"url":  {{Text: "postgres://kubeopera:"}, {Password: "pg"}, {Text: "@db"}},
		"keys": {{Text: "me:"}, {Password: "key", SHA256: true}},
		"key":  {{Password: "key"}},
	}}
	pull = gitopsenv.Secret{Namespace: "core", Name: "registry", Type: "kubernetes.io/dockerconfigjson", Registry: &registry}
)

func requests(manifests [][]byte, secrets ...gitopsenv.Secret) []gitopsenv.SealRequest {
	var list []gitopsenv.SealRequest
	for i, s := range secrets {
		r := gitopsenv.SealRequest{Secret: s, MetaNamespace: s.Namespace, MetaName: s.Name}
		if manifests != nil {
			r.Current = manifests[i]
		}
		list = append(list, r)
	}
	return list
}

func config(tb testing.TB) seal.Config {
	tb.Helper()
	return seal.Config{Certificate: controllers()[0].certificate(tb), DigestKey: digestKey, RegistryPassword: registryPassword}
}

func sealWith(tb testing.TB, c seal.Config, r []gitopsenv.SealRequest) [][]byte {
	tb.Helper()
	s, err := seal.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	manifests, err := s.Seal(r)
	if err != nil {
		tb.Fatal(err)
	}
	return manifests
}

func open(tb testing.TB, c controller, manifest []byte) map[string]string {
	tb.Helper()
	values, _, err := c.open(manifest)
	if err != nil {
		tb.Fatal(err)
	}
	return values
}

// live is the cluster once its controller has opened everything.
func live(tb testing.TB, c controller, manifests [][]byte, secrets ...gitopsenv.Secret) map[seal.Ref]map[string][]byte {
	tb.Helper()
	all := map[seal.Ref]map[string][]byte{}
	for i, s := range secrets {
		values := map[string][]byte{}
		for key, value := range open(tb, c, manifests[i]) {
			values[key] = []byte(value)
		}
		all[seal.Ref{Namespace: s.Namespace, Name: s.Name}] = values
	}
	return all
}

func TestUpstreamOpensWhatIsSealed(t *testing.T) {
	t.Parallel()
	var masked []string
	c := config(t)
	c.Mask = func(secrets ...string) { masked = append(masked, secrets...) }
	manifests := sealWith(t, c, requests(nil, postgres, client, pull))

	pg, kind, err := controllers()[0].open(manifests[0])
	if err != nil || kind != "kubernetes.io/basic-auth" {
		t.Fatalf("type %q, error %v", kind, err)
	}
	if pg["username"] != "kubeopera" || len(pg["password"]) != 32 {
		t.Errorf("username %q, password of %d bytes", pg["username"], len(pg["password"]))
	}
	cl, kind, err := controllers()[0].open(manifests[1])
	if err != nil || kind != "Opaque" {
		t.Fatalf("type %q, error %v", kind, err)
	}
	sum := sha256.Sum256([]byte(cl["key"]))
	want := map[string]string{
		"url":  "postgres://kubeopera:" + pg["password"] + "@db",
		"keys": "me:" + hex.EncodeToString(sum[:]),
		"key":  cl["key"],
	}
	if diff := cmp.Diff(want, cl); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	pl, kind, err := controllers()[0].open(manifests[2])
	if err != nil || kind != "kubernetes.io/dockerconfigjson" {
		t.Fatalf("type %q, error %v", kind, err)
	}
	var docker struct {
		Auths map[string]struct{ Username, Password, Auth string }
	}
	if err := json.Unmarshal([]byte(pl[".dockerconfigjson"]), &docker); err != nil {
		t.Fatal(err)
	}
	login := docker.Auths[registry.Server]
	auth, _ := base64.StdEncoding.DecodeString(login.Auth)
	if login.Username != "robot" || login.Password != registryPassword || string(auth) != "robot:"+registryPassword {
		t.Errorf("login %q", docker)
	}
	for _, secret := range []string{pg["password"], cl["key"], registryPassword} {
		if !slices.Contains(masked, secret) {
			t.Error("a plaintext was not masked")
		}
		for _, m := range manifests {
			if bytes.Contains(m, []byte(secret)) {
				t.Error("a plaintext is in a manifest")
			}
		}
	}
}

func TestNobodyElseOpens(t *testing.T) {
	t.Parallel()
	manifest := sealWith(t, config(t), requests(nil, postgres))[0]
	if _, _, err := controllers()[1].open(manifest); err == nil {
		t.Error("another controller opened it")
	}
	for _, tt := range []struct{ name, from, to string }{
		{"under another name", "name: postgres", "name: stolen"},
		{"in another namespace", "namespace: data", "namespace: core"},
		{"once it is said to be for the whole cluster", "  annotations:\n", "  annotations:\n    sealedsecrets.bitnami.com/cluster-wide: \"true\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			other := bytes.Replace(manifest, []byte(tt.from), []byte(tt.to), 1)
			if bytes.Equal(other, manifest) {
				t.Fatal("nothing was replaced")
			}
			if _, _, err := controllers()[0].open(other); err == nil {
				t.Error("it opened")
			}
		})
	}
}

func TestSealedOnlyWhenItHasToBe(t *testing.T) {
	t.Parallel()
	all := []gitopsenv.Secret{postgres, client, pull}
	first := sealWith(t, config(t), requests(nil, all...))
	cluster := live(t, controllers()[0], first, all...)
	relabelled := postgres
	relabelled.Labels = map[string]string{"new": "label"}
	for _, tt := range []struct {
		name    string
		change  func(*seal.Config)
		secrets []gitopsenv.Secret
		resealt []bool
		rotated bool
	}{
		{name: "nothing has changed", resealt: []bool{false, false, false}},
		{name: "nothing has changed and the cluster cannot be read", change: func(c *seal.Config) { c.Live = nil }, resealt: []bool{false, false, false}},
		{name: "another certificate", change: func(c *seal.Config) { c.Certificate = controllers()[1].certificate(t) }, resealt: []bool{true, true, true}},
		{name: "another password at the registry", change: func(c *seal.Config) { c.RegistryPassword = "new" }, resealt: []bool{false, false, true}},
		{name: "another label", secrets: []gitopsenv.Secret{relabelled, client, pull}, resealt: []bool{true, false, false}},
		{name: "another digest key", change: func(c *seal.Config) { c.DigestKey += "x" }, resealt: []bool{true, true, true}},
		{name: "a rotation", change: func(c *seal.Config) { c.Rotation = "r1" }, resealt: []bool{true, true, false}, rotated: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := config(t)
			c.Live = cluster
			if tt.change != nil {
				tt.change(&c)
			}
			secrets := all
			if tt.secrets != nil {
				secrets = tt.secrets
			}
			second := sealWith(t, c, requests(first, secrets...))
			opener := controllers()[0]
			if tt.name == "another certificate" {
				opener = controllers()[1]
			}
			for i := range secrets {
				if got := !bytes.Equal(first[i], second[i]); got != tt.resealt[i] {
					t.Errorf("%s sealed again: %v, want %v", secrets[i].Name, got, tt.resealt[i])
				}
			}
			before, after := open(t, controllers()[0], first[0])["password"], open(t, opener, second[0])["password"]
			if (before != after) != tt.rotated {
				t.Errorf("new password: %v, want %v", before != after, tt.rotated)
			}
			if url := open(t, opener, second[1])["url"]; url != "postgres://kubeopera:"+after+"@db" {
				t.Error("the two sides have different passwords")
			}
			// The same again changes nothing; a rotation is done once.
			for i, m := range sealWith(t, c, requests(second, secrets...)) {
				if !bytes.Equal(m, second[i]) {
					t.Errorf("%s was sealed once more", secrets[i].Name)
				}
			}
		})
	}
}

func TestPasswordsThatNobodyKnows(t *testing.T) {
	t.Parallel()
	first := sealWith(t, config(t), requests(nil, postgres, client))
	cluster := live(t, controllers()[0], first, postgres, client)

	c := config(t)
	c.Certificate = controllers()[1].certificate(t)
	s, err := seal.New(c)
	if err != nil {
		t.Fatal(err)
	}
	var unknown *seal.UnknownValueError
	if _, err := s.Seal(requests(first, postgres, client)); !errors.As(err, &unknown) {
		t.Fatalf("without the cluster's Secrets: %v, want an UnknownValueError", err)
	}

	// The cluster has not opened the newest secret yet.
	old := maps.Clone(cluster)
	old[seal.Ref{Namespace: "data", Name: "postgres"}] = map[string][]byte{"username": []byte("kubeopera"), "password": []byte("the one before")}
	delete(old, seal.Ref{Namespace: "core", Name: "postgres"})
	c.Live = old
	if s, err = seal.New(c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Seal(requests(first, postgres)); !errors.As(err, &unknown) || strings.Contains(err.Error(), "the one before") {
		t.Fatalf("with older Secrets: %v, want an UnknownValueError without values", err)
	}

	// One side is enough: the other holds the same password.
	one := maps.Clone(cluster)
	delete(one, seal.Ref{Namespace: "data", Name: "postgres"})
	c.Live = one
	second := sealWith(t, c, requests(first, postgres, client))
	if got, want := open(t, controllers()[1], second[0])["password"], string(cluster[seal.Ref{Namespace: "data", Name: "postgres"}]["password"]); got != want {
		t.Error("the password is another one")
	}
}

func TestAClusterThatHasThePasswordAlready(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.Live = map[seal.Ref]map[string][]byte{{Namespace: "core", Name: "postgres"}: {"url": []byte("postgres://kubeopera:in-use@db")}}
	manifests := sealWith(t, c, requests(nil, postgres, client))
	if got := open(t, controllers()[0], manifests[0])["password"]; got != "in-use" {
		t.Errorf("password %q, want the one in use", got)
	}
}

func TestASecretThatIsNewSharesThePasswordOfOneThatIsNot(t *testing.T) {
	t.Parallel()
	first := sealWith(t, config(t), requests(nil, postgres))
	c := config(t)
	c.Live = live(t, controllers()[0], first, postgres)
	second := sealWith(t, c, requests([][]byte{first[0], nil}, postgres, client))
	if !bytes.Equal(first[0], second[0]) {
		t.Error("the one that was there was sealed again")
	}
	if url := open(t, controllers()[0], second[1])["url"]; url != "postgres://kubeopera:"+open(t, controllers()[0], first[0])["password"]+"@db" {
		t.Error("the two sides have different passwords")
	}
	// Without the cluster nobody knows it.
	c.Live = nil
	s, err := seal.New(c)
	if err != nil {
		t.Fatal(err)
	}
	var unknown *seal.UnknownValueError
	if _, err := s.Seal(requests([][]byte{first[0], nil}, postgres, client)); !errors.As(err, &unknown) {
		t.Errorf("error %v, want an UnknownValueError", err)
	}
}

func TestCertificatesThatAreNone(t *testing.T) {
	t.Parallel()
	good := controllers()[0].pem
	_, small, err := crypto.GeneratePrivateKeyAndCert(1024, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		data []byte
		now  time.Time
		want string
	}{
		{"empty", nil, time.Now(), "empty"},
		{"a page", []byte("<html>502 Bad Gateway</html>"), time.Now(), "no certificate in PEM"},
		{"a key", []byte("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"), time.Now(), "RSA PRIVATE KEY where"},
		{"two", slices.Concat(good, controllers()[1].pem), time.Now(), "2 certificates"},
		{"garbage", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), time.Now(), "parse certificate"},
		{"expired", good, time.Now().AddDate(20, 0, 0), "expired on"},
		{"from the future", good, time.Now().AddDate(-1, 0, 0), "one of the two clocks"},
		{"weak", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: small.Raw}), time.Now(), "1024 bits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := seal.ParseCertificate(tt.data, tt.now); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func FuzzParseCertificate(f *testing.F) {
	f.Add(controllers()[0].pem)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cert, err := seal.ParseCertificate(data, time.Now())
		if (err == nil) != (cert != nil) {
			t.Fatalf("certificate %v, error %v", cert, err)
		}
	})
}

func TestConfigsThatCannotSeal(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*seal.Config){
		"no certificate":       func(c *seal.Config) { c.Certificate = nil },
		"short digest key":     func(c *seal.Config) { c.DigestKey = "short" },
		"no registry password": func(c *seal.Config) { c.RegistryPassword = "" },
	} {
		c := config(t)
		change(&c)
		if _, err := seal.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
