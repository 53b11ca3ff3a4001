package scaffold

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/kubeconfig"
	"github.com/kubeopera/platform/shared/runcontract"
)

// The longest texts that anybody needs, in bytes.
const (
	maxCertificate      = 32 << 10
	maxRegistryPassword = 8 << 10 // of a cloud's registry it is a token
)

// Rules are what the service's configuration says about requests.
type Rules struct {
	// Services are the services that may be asked for; any if empty.
	Services []string
	// Platform says that there is a repository of the platform's own.
	Platform bool
	// Provisions says that there is a cluster-provisioner to ask for clusters.
	Provisions bool
}

// request is a request that has passed the rules.
type request struct {
	inputs  Inputs
	secrets api.ScaffoldSecrets
	exec    *kubeconfig.Exec // of the caller's kubeconfig
}

// Validate gives the normalised form of a request, or everything that is wrong
// with it. A message says what is allowed and never repeats the value. What is
// known only elsewhere (credentials, provisioning runs) is Start's to look up.
func Validate(req api.ScaffoldRequest, rules Rules) (Inputs, []api.FieldProblem) {
	r, problems := validate(req, rules)
	return r.inputs, problems
}

func validate(req api.ScaffoldRequest, rules Rules) (request, []api.FieldProblem) {
	c := &checker{rules: rules}
	out := request{inputs: Inputs{Rotate: req.RotateSecrets, AllowDeletion: req.AllowDeletion, DryRun: req.DryRun}}
	out.inputs.Tree = c.tree(req)
	out.inputs.Repository = c.repository(req.Repository, &out.secrets)
	out.inputs.Target, out.exec = c.target(req.Target, &out.secrets)
	out.inputs.Mode = c.mode(req.Mode)
	if out.inputs.Mode == api.PushPullRequest && out.inputs.Repository.Branch == out.inputs.MergeBranch() {
		c.addf("repository.branch", "must not be the branch that the run pushes to be merged")
	}
	if req.SigningKey != "" {
		out.secrets.SigningKey = c.privateKey("signing_key", req.SigningKey)
		out.inputs.Signed = true
	}
	out.secrets.RegistryPassword = c.registryPassword("registry.password", req.Registry.Password)
	out.inputs.Inline = present(out.secrets)
	slices.SortStableFunc(c.problems, func(a, b api.FieldProblem) int { return cmp.Compare(a.Location, b.Location) })
	return out, c.problems
}

// present names the secrets that there are.
func present(s api.ScaffoldSecrets) []string {
	var names []string
	for name, value := range secretFields(&s) {
		if *value != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// secretFields are the fields of the secrets by their names in JSON.
func secretFields(s *api.ScaffoldSecrets) map[string]*string {
	return map[string]*string{
		"token": &s.Token, "ssh_key": &s.SSHKey, "kubeconfig": &s.Kubeconfig,
		"registry_password": &s.RegistryPassword, "signing_key": &s.SigningKey,
	}
}

// checker collects problems. Each of its methods checks one field and returns
// its normalised value, which is only of use when no problem was found.
type checker struct {
	rules    Rules
	problems []api.FieldProblem
}

func (c *checker) addf(field, format string, args ...any) {
	c.problems = append(c.problems, api.FieldProblem{Location: "body." + field, Message: fmt.Sprintf(format, args...)})
}

// tree checks what the tree is made from. What the runner would refuse is refused
// here: the rules are the run contract's.
func (c *checker) tree(req api.ScaffoldRequest) runcontract.ScaffoldInputs {
	in, problems := runcontract.ScaffoldInputs{
		Environment: req.Environment, Domain: req.Domain, Region: req.Region, Email: req.Email, Services: req.Services,
		Registry: runcontract.Registry{Server: req.Registry.Server, Username: req.Registry.Username},
	}.Normalise()
	for _, p := range problems {
		c.addf(p.Location, "%s", p.Message)
	}
	if req.Registry.Server == "" && req.Registry.Username == "" { // the runner may do without, for its first pass
		c.addf("registry.server", "is required: host or host:port of the registry that the services' images come from")
	}
	if len(c.rules.Services) > 0 {
		for _, name := range slices.Sorted(maps.Keys(req.Services)) {
			if !slices.Contains(c.rules.Services, name) {
				c.addf("services", "names a service that there is not; there are %s", strings.Join(c.rules.Services, ", "))
				break
			}
		}
	}
	return in
}

func (c *checker) registryPassword(field, password string) string {
	switch {
	case password == "":
		c.addf(field, "is required")
	case len(password) > maxRegistryPassword || strings.ContainsRune(password, 0):
		c.addf(field, "must have at most %d bytes, none of them NUL", maxRegistryPassword)
	}
	return password
}

func (c *checker) mode(mode api.PushMode) api.PushMode {
	switch mode {
	case "":
		return api.PushDirect
	case api.PushDirect, api.PushPullRequest:
	default:
		c.addf("mode", "must be %s or %s", api.PushDirect, api.PushPullRequest)
	}
	return mode
}

var uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// uuid is an id of somebody else's; what says whose.
func (c *checker) uuid(field, id, what string) string {
	if id != "" && !uuidPattern.MatchString(id) {
		c.addf(field, "must be the UUID of %s", what)
	}
	return strings.ToLower(id)
}

// privateKey is an SSH key as it goes into a file: OpenSSH wants the last line
// break.
func (c *checker) privateKey(field, key string) string {
	if err := cloudcred.CheckPrivateKey(key); err != nil {
		c.addf(field, "%s", strings.TrimPrefix(err.Error(), "the private key "))
	}
	return keyFile(key)
}

func keyFile(key string) string {
	return strings.TrimSpace(strings.ReplaceAll(key, "\r\n", "\n")) + "\n"
}

func (c *checker) target(t api.ScaffoldTarget, secrets *api.ScaffoldSecrets) (Target, *kubeconfig.Exec) {
	out := Target{
		ProvisionID:  c.uuid("target.provision_id", t.ProvisionID, "a provisioning run"),
		CredentialID: c.uuid("target.credential_id", t.CredentialID, "an AWS credential in auth-service"),
		Certificate:  c.certificate(t.Certificate),
	}
	var exec *kubeconfig.Exec
	switch {
	case t.ProvisionID != "" && t.Kubeconfig != "":
		c.addf("target", "must have provision_id or kubeconfig, not both")
	case t.ProvisionID != "" && !c.rules.Provisions:
		c.addf("target.provision_id", "cannot be used: no cluster-provisioner is configured; give the cluster's kubeconfig")
	case t.ProvisionID != "":
	case t.Kubeconfig == "":
		c.addf("target", "is required: provision_id of a cluster that the platform has built, or the kubeconfig of another")
	default:
		secrets.Kubeconfig = t.Kubeconfig
		out, exec = c.kubeconfig("target.kubeconfig", out, t.Kubeconfig)
	}
	return out, exec
}

// kubeconfig takes a kubeconfig that holds all it needs; see package kubeconfig.
func (c *checker) kubeconfig(field string, t Target, text string) (Target, *kubeconfig.Exec) {
	info, err := kubeconfig.Check([]byte(text))
	if err != nil {
		c.addf(field, "cannot be used: %s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), kubeconfig.ErrRefused.Error()+": "), "kubeconfig: "))
		return t, nil
	}
	t.Server = info.Server
	if info.Exec == nil {
		if t.CredentialID != "" {
			c.addf("target.credential_id", "is of no use: the kubeconfig has no exec plugin that would need one; leave it out")
		}
		return t, nil
	}
	t.EKS = &runcontract.EKSCluster{Name: info.Exec.Cluster, Region: info.Exec.Region}
	switch {
	case info.Exec.AccessKeyID == "" && info.Exec.SecretAccessKey == "":
		if t.CredentialID == "" {
			c.addf("target.credential_id", "is required: the kubeconfig's exec plugin holds no AWS key")
		}
	default:
		if err := execKey(info.Exec).Validate(); err != nil {
			c.addf(field, "cannot be used: the AWS key of its exec plugin is none")
		}
	}
	return t, info.Exec
}

func execKey(e *kubeconfig.Exec) cloudcred.AccessKey {
	return cloudcred.AccessKey{ID: e.AccessKeyID, Secret: e.SecretAccessKey, SessionToken: e.SessionToken}
}

// certificate is one certificate as PEM, normalised.
func (c *checker) certificate(text string) string {
	if text == "" {
		return ""
	}
	const rule = "must be one RSA certificate as PEM, as sealed-secrets serves it at /v1/cert.pem"
	block, rest := pem.Decode([]byte(text))
	if len(text) > maxCertificate || block == nil || block.Type != "CERTIFICATE" || strings.TrimSpace(string(rest)) != "" {
		c.addf("target.certificate", rule)
		return ""
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || cert.PublicKeyAlgorithm != x509.RSA {
		c.addf("target.certificate", rule)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
}
