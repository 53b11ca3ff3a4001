package scaffold

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kubeopera/platform/e2e/bench"
	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/platform"
	"github.com/kubeopera/platform/scaffoldrunner/seal"
	"github.com/kubeopera/platform/scaffoldrunner/verify"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/gitops"
)

// BenchmarkScaffold measures an environment of the embedded tree.
func BenchmarkScaffold(b *testing.B) {
	var table bench.Table
	s := newScene(b)
	b.Run("tree", func(b *testing.B) { s.tree(b, &table) })
	b.Run("seal", func(b *testing.B) { s.seal(b, &table) })
	if err := table.Write(os.Stdout); err != nil {
		b.Error(err)
	}
}

// scene is a controller's certificate, with a key as long as controllers make it.
type scene struct {
	pem         []byte
	certificate *seal.Certificate
}

func newScene(b *testing.B) *scene {
	b.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 4096)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		b.Fatal(err)
	}
	s := &scene{pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if s.certificate, err = seal.ParseCertificate(s.pem, time.Now()); err != nil {
		b.Fatal(err)
	}
	return s
}

// sealer is a new one: each is good for one tree.
func (s *scene) sealer(b *testing.B) *seal.Sealer {
	b.Helper()
	sealer, err := seal.New(seal.Config{
		Certificate: s.certificate, DigestKey: "0123456789abcdef0123456789abcdef", RegistryPassword: "the registry's password",
	})
	if err != nil {
		b.Fatal(err)
	}
	return sealer
}

var inputs = gitopsenv.Inputs{
	Environment: "acme-prod", Domain: "acme.example.com", Region: "eu-west-1", Email: "ops@acme.example.com",
	Registry: gitopsenv.Registry{Server: "registry.example.com", Username: "robot"},
}

// tree measures what a run does between two looks at its repository.
func (s *scene) tree(b *testing.B, table *bench.Table) {
	b.Helper()
	const repeat = 20
	var whole, generated, verified bench.Samples
	var env gitopsenv.Environment
	for range repeat {
		began := time.Now()
		base := gitopsenv.Base{Platform: platform.Tree()}
		var err error
		if env, err = gitopsenv.Complete(base, inputs, s.sealer(b)); err != nil {
			b.Fatal(err)
		}
		generated = append(generated, time.Since(began))
		if err := verify.Verify(verify.Config{Base: base, Inputs: inputs, Environment: env, Certificate: s.certificate.Fingerprint}); err != nil {
			b.Fatal(err)
		}
		whole = append(whole, time.Since(began))
		verified = append(verified, whole[len(whole)-1]-generated[len(generated)-1])
	}
	table.Add(fmt.Sprintf("embedded tree, %d files and %d secrets: generate, seal and verify: median, slowest of %d", len(env.Tree), len(env.Secrets), repeat),
		bench.Milliseconds(whole.Median())+", "+bench.Milliseconds(slices.Max(whole)), bench.Verdict("below 1 s", whole.Median() < time.Second))
	table.Add("of that: generate and seal; verify; medians", bench.Milliseconds(generated.Median())+"; "+bench.Milliseconds(verified.Median()), "")
}

// recorder asks for nothing to be sealed and keeps what it was asked for.
type recorder struct{ requests []gitopsenv.SealRequest }

// Seal implements gitopsenv.Sealer.
func (r *recorder) Seal(requests []gitopsenv.SealRequest) ([][]byte, error) {
	r.requests = requests
	return make([][]byte, len(requests)), nil
}

// seal measures sealing all secrets of the tree, in process and by one process of
// kubeseal for each, in turn.
func (s *scene) seal(b *testing.B, table *bench.Table) {
	b.Helper()
	const repeat, goal = 20, 20
	var r recorder
	if _, err := gitopsenv.Complete(gitopsenv.Base{Platform: platform.Tree()}, inputs, &r); err != nil {
		b.Fatal(err)
	}
	certificate := filepath.Join(b.TempDir(), "cert.pem")
	if err := os.WriteFile(certificate, s.pem, 0o600); err != nil {
		b.Fatal(err)
	}
	program := kubeseal(b)
	var secrets [][]byte
	for _, request := range r.requests {
		secrets = append(secrets, plain(b, request.Secret))
	}
	var inProcess, byProgram bench.Samples
	for range repeat {
		sealer := s.sealer(b)
		began := time.Now()
		if _, err := sealer.Seal(r.requests); err != nil {
			b.Fatal(err)
		}
		inProcess = append(inProcess, time.Since(began))
		began = time.Now()
		for _, secret := range secrets {
			run(b, program, secret, "--cert", certificate, "--format", "yaml")
		}
		byProgram = append(byProgram, time.Since(began))
	}
	ratio := float64(byProgram.Median()) / float64(inProcess.Median())
	table.Add(fmt.Sprintf("sealing the %d secrets: in process; by a kubeseal process for each; medians of %d", len(secrets), repeat),
		fmt.Sprintf("%s; %s: %.1f times faster", bench.Milliseconds(inProcess.Median()), bench.Milliseconds(byProgram.Median()), ratio),
		bench.Verdict(fmt.Sprintf("%d times faster", goal), ratio >= goal))
}

// plain is a Secret with as many values, of the length that passwords have.
func plain(b *testing.B, secret gitopsenv.Secret) []byte {
	b.Helper()
	data := map[string]string{}
	for key := range secret.Values {
		data[key] = seal.Password()
	}
	if secret.Registry != nil {
		data[".dockerconfigjson"] = `{"auths":{"` + secret.Registry.Server + `":{"username":"` + secret.Registry.Username + `","password":"` + seal.Password() + `"}}}`
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": secret.Type,
		"metadata": map[string]any{"namespace": secret.Namespace, "name": secret.Name}, "stringData": data,
	})
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// kubeseal is upstream's program, which is built if it is not there.
func kubeseal(b *testing.B) string {
	b.Helper()
	root, err := sim.FindRoot(".")
	if err != nil {
		b.Fatal(err)
	}
	tools, err := gitops.FindTools(b.Context(), root, false, os.Stderr)
	if err != nil {
		b.Fatal(err)
	}
	return tools.Kubeseal()
}

func run(b *testing.B, program string, input []byte, args ...string) {
	b.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), program, args...)
	cmd.Env = []string{"HOME=" + filepath.Dir(args[1])} // nobody's kubeconfig
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		b.Fatalf("kubeseal: %v: %s", err, stderr.String())
	}
}
