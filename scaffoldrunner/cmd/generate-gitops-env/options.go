package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/seal"
	"github.com/kubeopera/platform/shared/redact"
)

const help = `generate-gitops-env writes the Flux tree of an environment into the work tree of
a repository: clusters/ENVIRONMENT and apps/*/overlays/ENVIRONMENT.

It is generated from clusters/development and apps/*/base of that repository, or,
where it has none, from a platform that is part of this program. It takes two
runs for a new cluster, since a secret can be sealed only for a controller that
is there:

  1. generate-gitops-env -infra-only ...   then commit, push, and wait until the
     cluster has sealed-secrets
  2. generate-gitops-env -cert cert.pem ...   then commit and push

  kubectl get --raw /api/v1/namespaces/sealed-secrets/services/http:sealed-secrets:http/proxy/v1/cert.pem > cert.pem

A run that has nothing to change changes nothing: secrets are sealed again only
if the certificate, or what they are made of, is another. Passwords are made
once. To seal them again for another certificate they are read from the cluster:

  kubectl get secrets -A -o json | generate-gitops-env -live-secrets - ...

Nothing is written unless the result renders and is what was asked for. Secrets
are never written in clear.

Usage:
  generate-gitops-env [flags]

Flags:
`

// options are what the command line says.
type options struct {
	inputs        gitopsenv.Inputs
	output        string
	infraOnly     bool
	dryRun        bool
	allowDeletion bool
	rotation      string

	certificate      []byte
	digestKey        redact.Secret
	registryPassword redact.Secret
	live             map[seal.Ref]map[string][]byte
}

// services is the flag -service, which may be repeated.
type services map[string]gitopsenv.Service

func (services) String() string { return "" }

func (s services) Set(value string) error {
	name, host, _ := strings.Cut(value, "=")
	if _, twice := s[name]; twice {
		return errors.New("a service is named twice")
	}
	s[name] = gitopsenv.Service{Hostname: host}
	return nil
}

// parse reads the command line and the files that it names.
func parse(args []string, stdin io.Reader, stdout io.Writer) (options, error) {
	flags := flag.NewFlagSet("generate-gitops-env", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are reported once, by the caller
	var o options
	var file, certificate, digestKey, registryPassword, live string
	chosen := services{}
	var given gitopsenv.Inputs
	flags.StringVar(&file, "f", "", "`file` with the inputs as YAML: environment, domain, region, email, services, registry; flags win over it")
	flags.StringVar(&given.Environment, "environment", "", "`name` of the environment")
	flags.StringVar(&given.Domain, "domain", "", "`domain` that the services' hostnames end in")
	flags.StringVar(&given.Region, "region", "", "AWS `region` of the domain's zone")
	flags.StringVar(&given.Email, "email", "", "`address` for the certificate authority")
	flags.Var(chosen, "service", "`name` or name=hostname of a service to have; repeat it for several (default all)")
	flags.StringVar(&given.Registry.Server, "registry-server", "", "container registry, as `host` or host:port")
	flags.StringVar(&given.Registry.Username, "registry-username", "", "`user` at the registry")
	flags.StringVar(&registryPassword, "registry-password-file", "", "`file` with the user's password at the registry; - for standard input")
	flags.StringVar(&o.output, "o", ".", "`folder` of the repository's work tree")
	flags.BoolVar(&o.infraOnly, "infra-only", false, "write the infrastructure layer only; nothing is sealed")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would change as a diff and write nothing")
	flags.StringVar(&certificate, "cert", "", "`file` with the certificate of the cluster's sealed-secrets controller")
	flags.StringVar(&digestKey, "digest-key-file", "", "`file` with the key, of at least 32 bytes, of the digests that tell whether a value is still the same; keep it for the environment's next run")
	flags.StringVar(&live, "live-secrets", "", "`file` with the cluster's Secrets, as kubectl prints them with -o json or -o yaml; - for standard input")
	flags.StringVar(&o.rotation, "rotate", "", "make new passwords; `name` names the rotation, and the same name again does nothing")
	flags.BoolVar(&o.allowDeletion, "allow-deletion", false, "allow that sealed secrets, namespaces, databases or layers go")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(stdout, help)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return o, err
	case err != nil:
		return o, err
	case flags.NArg() > 0:
		return o, errors.New("there are only flags, and no arguments")
	}
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return o, err
		}
		if err := yaml.UnmarshalStrict(data, &o.inputs); err != nil {
			return o, fmt.Errorf("%s: not inputs: %w", file, withoutValues(err))
		}
	}
	override(&o.inputs.Environment, given.Environment)
	override(&o.inputs.Domain, given.Domain)
	override(&o.inputs.Region, given.Region)
	override(&o.inputs.Email, given.Email)
	override(&o.inputs.Registry.Server, given.Registry.Server)
	override(&o.inputs.Registry.Username, given.Registry.Username)
	if len(chosen) > 0 {
		o.inputs.Services = chosen
	}
	if o.infraOnly {
		if certificate+registryPassword+digestKey+live+o.rotation != "" {
			return o, errors.New("-infra-only seals nothing: leave out -cert, -registry-password-file, -digest-key-file, -live-secrets and -rotate")
		}
		return o, nil
	}
	if registryPassword == "-" && live == "-" {
		return o, errors.New("standard input can be only one of -registry-password-file and -live-secrets")
	}
	return o, o.read(stdin, certificate, digestKey, registryPassword, live)
}

// withoutValues keeps a decoder's message from repeating what it read.
func withoutValues(err error) error {
	message, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(message)
}

func override(value *string, flag string) {
	if flag != "" {
		*value = flag
	}
}

// read reads what a complete environment needs besides inputs.
func (o *options) read(stdin io.Reader, certificate, digestKey, registryPassword, live string) error {
	for name, value := range map[string]string{"-cert": certificate, "-registry-password-file": registryPassword, "-digest-key-file": digestKey} {
		if value == "" {
			return fmt.Errorf("a complete environment needs %s; -infra-only does without", name)
		}
	}
	open := func(file string) ([]byte, error) {
		if file == "-" {
			return io.ReadAll(stdin)
		}
		return os.ReadFile(file)
	}
	var err error
	if o.certificate, err = open(certificate); err != nil {
		return err
	}
	key, err := open(digestKey)
	if err != nil {
		return err
	}
	o.digestKey = redact.Secret(key)
	password, err := open(registryPassword)
	if err != nil {
		return err
	}
	// An editor ends a file's last line; passwords may have any byte but that.
	o.registryPassword = redact.Secret(strings.TrimSuffix(strings.TrimSuffix(string(password), "\n"), "\r"))
	if live == "" {
		return nil
	}
	data, err := open(live)
	if err != nil {
		return err
	}
	o.live, err = liveSecrets(data)
	return err
}

// liveSecrets reads a list of Secrets. Its errors repeat nothing of it.
func liveSecrets(data []byte) (map[seal.Ref]map[string][]byte, error) {
	var list struct {
		Items []struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
			} `json:"metadata"`
			Data map[string]string `json:"data"`
		} `json:"items"`
	}
	if err := yaml.Unmarshal(bytes.TrimSpace(data), &list); err != nil || len(list.Items) == 0 {
		return nil, errors.New("-live-secrets is no list of Secrets")
	}
	secrets := map[seal.Ref]map[string][]byte{}
	for _, item := range list.Items {
		values := map[string][]byte{}
		for key, value := range item.Data {
			raw, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				return nil, fmt.Errorf("-live-secrets: key %s of Secret %s/%s is not base64", key, item.Metadata.Namespace, item.Metadata.Name)
			}
			values[key] = raw
		}
		secrets[seal.Ref{Namespace: item.Metadata.Namespace, Name: item.Metadata.Name}] = values
	}
	return secrets, nil
}

// sealer is what the options seal with, and the certificate's fingerprint.
func (o *options) sealer(now time.Time) (*seal.Sealer, string, error) {
	certificate, err := seal.ParseCertificate(o.certificate, now)
	if err != nil {
		return nil, "", fmt.Errorf("-cert: %w", err)
	}
	s, err := seal.New(seal.Config{
		Certificate:      certificate,
		DigestKey:        o.digestKey,
		RegistryPassword: o.registryPassword,
		Live:             o.live,
		Rotation:         o.rotation,
	})
	return s, certificate.Fingerprint, err
}
