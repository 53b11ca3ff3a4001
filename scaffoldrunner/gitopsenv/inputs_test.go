package gitopsenv_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/verify"
)

func TestNormalise(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*gitopsenv.Inputs)
		want   string // the field that is wrong; empty if none is
	}{
		{"as they are", func(*gitopsenv.Inputs) {}, ""},
		{"domain with a scheme", func(in *gitopsenv.Inputs) { in.Domain = "https://acme.example.com" }, "domain"},
		{"domain with a port", func(in *gitopsenv.Inputs) { in.Domain = "acme.example.com:443" }, "domain"},
		{"domain with a wildcard", func(in *gitopsenv.Inputs) { in.Domain = "*.acme.example.com" }, "domain"},
		{"domain of one label", func(in *gitopsenv.Inputs) { in.Domain = "localhost" }, "domain"},
		{"domain that is an address", func(in *gitopsenv.Inputs) { in.Domain = "192.0.2.1" }, "domain"},
		{"domain with an underscore", func(in *gitopsenv.Inputs) { in.Domain = "a_b.example.com" }, "domain"},
		{"domain with a long label", func(in *gitopsenv.Inputs) { in.Domain = strings.Repeat("a", 64) + ".example.com" }, "domain"},
		{"domain that is too long", func(in *gitopsenv.Inputs) { in.Domain = strings.Repeat("aaaaaaaa.", 30) + "example" }, "domain"},
		{"domain that breaks out of YAML", func(in *gitopsenv.Inputs) { in.Domain = "a.example\nkind: Secret" }, "domain"},
		{"no domain", func(in *gitopsenv.Inputs) { in.Domain = "" }, "domain"},
		{"environment development", func(in *gitopsenv.Inputs) { in.Environment = "development" }, "environment"},
		{"environment base", func(in *gitopsenv.Inputs) { in.Environment = "base" }, "environment"},
		{"environment that is a path", func(in *gitopsenv.Inputs) { in.Environment = "../base" }, "environment"},
		{"environment in upper case", func(in *gitopsenv.Inputs) { in.Environment = "Acme" }, "environment"},
		{"environment named like a boolean", func(in *gitopsenv.Inputs) { in.Environment = "no" }, ""},
		{"environment named like a number", func(in *gitopsenv.Inputs) { in.Environment = "0123" }, ""},
		{"region that is none", func(in *gitopsenv.Inputs) { in.Region = "europe" }, "region"},
		{"region of the government", func(in *gitopsenv.Inputs) { in.Region = "us-gov-west-1" }, ""},
		{"email with a name", func(in *gitopsenv.Inputs) { in.Email = "Ops <ops@acme.example.com>" }, "email"},
		{"email with a quoted part", func(in *gitopsenv.Inputs) { in.Email = "\"a\nb\"@acme.example.com" }, "email"},
		{"registry with a scheme", func(in *gitopsenv.Inputs) { in.Registry.Server = "https://registry.example.com/v2/" }, "registry.server"},
		{"registry with a port", func(in *gitopsenv.Inputs) { in.Registry.Server = "registry.example.com:5000" }, ""},
		{"registry with a port that is none", func(in *gitopsenv.Inputs) { in.Registry.Server = "registry.example.com:99999" }, "registry.server"},
		{"registry user with a colon", func(in *gitopsenv.Inputs) { in.Registry.Username = "a:b" }, "registry.username"},
		{"no service", func(in *gitopsenv.Inputs) { in.Services = map[string]gitopsenv.Service{} }, "services"},
		{"service with a path", func(in *gitopsenv.Inputs) { in.Services = map[string]gitopsenv.Service{"../x": {}} }, "services"},
		{"hostname outside the domain", func(in *gitopsenv.Inputs) {
			in.Services = map[string]gitopsenv.Service{"gateway": {Hostname: "x.other.example"}}
		}, "services.gateway.hostname"},
		{"hostname that only ends like the domain", func(in *gitopsenv.Inputs) {
			in.Services = map[string]gitopsenv.Service{"gateway": {Hostname: "xacme.example.com"}}
		}, "services.gateway.hostname"},
		{"one hostname twice", func(in *gitopsenv.Inputs) {
			in.Services = map[string]gitopsenv.Service{"gateway": {Hostname: "x.acme.example.com"}, "web-console": {Hostname: "X.acme.example.com."}}
		}, "services.web-console.hostname"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := acme()
			tt.change(&in)
			_, problems := in.Normalise()
			var got []string
			for _, p := range problems {
				got = append(got, p.Location)
			}
			want := []string{tt.want}
			if tt.want == "" {
				want = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNormalisedDomains(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"acme.example.com.": "acme.example.com",
		"ACME.example.com":  "acme.example.com",
		"bücher.example":    "xn--bcher-kva.example",
		"1e3.example.com":   "1e3.example.com",
	} {
		in := acme()
		in.Domain, in.Email = given, "a@b.example"
		if got, problems := in.Normalise(); got.Domain != want || len(problems) > 0 {
			t.Errorf("%q became %q (%v), want %q", given, got.Domain, problems, want)
		}
	}
}

// Whatever is accepted stays the same text in every file: nothing breaks out of
// its place, and nothing is read as anything but a string.
func FuzzInputs(f *testing.F) {
	f.Add("acme-prod", "acme.example.com", "eu-west-1", "ops@acme.example.com", "registry.example.com", "robot", "gateway", "api.acme.example.com")
	f.Add("no", "1e3.example.com", "eu-west-1", "a@b.c", "r:5000", "ro bot'\"#", "web-console", "")
	f.Add("0123", "xn--bcher-kva.example", "us-gov-west-1", "*a&b@b.c", "r", "{x}", "gateway", "xn--bcher-kva.example")
	f.Fuzz(func(t *testing.T, environment, domain, region, email, server, username, service, host string) {
		in := gitopsenv.Inputs{
			Environment: environment, Domain: domain, Region: region, Email: email,
			Registry: gitopsenv.Registry{Server: server, Username: username},
			Services: map[string]gitopsenv.Service{service: {Hostname: host}},
		}
		clean, problems := in.Normalise()
		for _, p := range problems {
			if p.Location == "" || p.Message == "" {
				t.Errorf("problem without location or message: %+v", p)
			}
		}
		if len(problems) > 0 {
			return
		}
		if again, problems := clean.Normalise(); len(problems) > 0 || !cmp.Equal(again, clean) {
			t.Fatalf("normalised twice: %+v, then %+v (%v)", clean, again, problems)
		}
		base := embedded(nil)
		env, err := gitopsenv.Complete(base, in, &sealer{})
		if err != nil {
			return // a service that is not there
		}
		if clean.Registry.Server != "registry.dev.kubeopera.example" {
			if err := verify.Verify(verify.Config{Base: base, Inputs: in, Environment: env}); err != nil && !strings.Contains(err.Error(), ".invalid") {
				t.Fatal(err)
			}
		}
		read := func(file string, into any) {
			t.Helper()
			if err := yaml.UnmarshalStrict(env.Tree[file], into); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		folder := gitopsenv.Folder(clean.Environment)
		var environmentMap struct {
			APIVersion, Kind string
			Metadata         map[string]string
			Data             map[string]string
		}
		read(folder+"/apps/environment.yaml", &environmentMap)
		for key, want := range map[string]string{"ENVIRONMENT": clean.Environment, "DOMAIN": clean.Domain, "REGION": clean.Region, "REGISTRY_SERVER": clean.Registry.Server} {
			if got := environmentMap.Data[key]; got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		var issuer struct {
			Spec struct {
				ACME struct {
					Email string `json:"email"`
				} `json:"acme"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(env.Tree[folder+"/cert-manager-config/cluster-issuer.yaml"], &issuer); err != nil || issuer.Spec.ACME.Email != clean.Email {
			t.Errorf("email is %q (%v), want %q", issuer.Spec.ACME.Email, err, clean.Email)
		}
		var operations []struct{ Op, Path, Value string }
		if file := "apps/" + service + "/overlays/" + clean.Environment + "/ingress-hostname.yaml"; env.Tree[file] != nil {
			read(file, &operations)
			for _, o := range operations {
				if !slices.Contains(env.Hosts[service], o.Value) {
					t.Errorf("%s sets %q, want one of %v", file, o.Value, env.Hosts[service])
				}
			}
		}
	})
}
