package main

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bitnami-labs/sealed-secrets/pkg/apis/sealedsecrets/v1alpha1"
	"github.com/bitnami-labs/sealed-secrets/pkg/crypto"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/platform"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"generate-gitops-env": func() {
			os.Exit(command(context.Background(), os.Args[1:], time.Now, os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"controller":  controller,
			"unseal":      unseal,
			"leaves":      leaves,
			"development": development,
		},
	})
}

// controller makes the key and the certificate of a sealed-secrets controller:
// controller name.
func controller(ts *testscript.TestScript, _ bool, args []string) {
	key, cert, err := crypto.GeneratePrivateKeyAndCert(2048, time.Hour, "")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".key"), x509.MarshalPKCS1PrivateKey(key), 0o600))
}

// unseal opens sealed secrets as a controller does, and writes them as kubectl
// would print the cluster's Secrets: unseal name out.json folder.
func unseal(ts *testscript.TestScript, _ bool, args []string) {
	raw, err := os.ReadFile(ts.MkAbs(args[0] + ".key"))
	ts.Check(err)
	key, err := x509.ParsePKCS1PrivateKey(raw)
	ts.Check(err)
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(args[2]), "clusters/*/*/sealed-secrets/*.yaml"))
	ts.Check(err)
	var items []any
	for _, file := range files {
		data, err := os.ReadFile(file)
		ts.Check(err)
		var sealed v1alpha1.SealedSecret
		ts.Check(yaml.UnmarshalStrict(data, &sealed))
		secret, err := sealed.Unseal(serializer.NewCodecFactory(scheme.Scheme), map[string]*rsa.PrivateKey{"": key})
		if err != nil {
			ts.Fatalf("%s: %v", file, err)
		}
		items = append(items, secret)
	}
	if len(items) == 0 {
		ts.Fatalf("no sealed secrets in %s", args[2])
	}
	out, err := yaml.Marshal(map[string]any{"items": items})
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out, 0o600))
}

// leaves checks that no file below a folder has one of some texts in it, and that
// no temporary file is left: leaves folder text...
func leaves(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") {
			ts.Fatalf("%s was left", file)
		}
		data, err := os.ReadFile(file)
		for _, text := range args[1:] {
			if strings.Contains(string(data), text) {
				ts.Fatalf("%s has %q", file, text)
			}
		}
		return err
	}))
}

// development writes the embedded tree into a folder: development folder.
func development(ts *testscript.TestScript, _ bool, args []string) {
	for file, data := range platform.Tree() {
		path := filepath.Join(ts.MkAbs(args[0]), file)
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		ts.Check(os.WriteFile(path, data, 0o644))
	}
}
