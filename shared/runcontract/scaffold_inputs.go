package runcontract

import (
	"fmt"
	"maps"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"github.com/kubeopera/platform/shared/api"
)

// DevelopmentEnvironment is the environment that others are generated from.
const DevelopmentEnvironment = "development"

// ScaffoldInputs say what an environment is. None of them is secret. Services
// normalise what a request says, runners what the spec says.
type ScaffoldInputs struct {
	// Environment is the environment's name, a DNS label.
	Environment string `json:"environment"`
	// Domain is what the hostnames of the services end in.
	Domain string `json:"domain"`
	// Region is the AWS region of the domain's zone.
	Region string `json:"region"`
	// Email is the address that the certificate authority writes to.
	Email string `json:"email"`
	// Services are the services to have, by name; all that the base has if nil. A
	// hostname that is empty is made from the base's host and the domain.
	Services map[string]api.ScaffoldService `json:"services,omitempty"`
	// Registry is where the services' images come from; its password is the file
	// CredentialRegistryPasswordFile.
	Registry Registry `json:"registry"`
}

// Registry is a login at a container registry, without its password.
type Registry struct {
	Server   string `json:"server"` // host, or host:port
	Username string `json:"username"`
}

var (
	dnsLabel     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	regionForm   = regexp.MustCompile(`^[a-z]{2}(-[a-z]+){1,3}-[0-9]{1,2}$`)
	registryForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$`)
	emailForm    = regexp.MustCompile(`^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]+@[A-Za-z0-9.-]+$`)
)

// Normalise gives the inputs as they are written to the tree, or everything that
// is wrong with them. Messages never repeat a value.
func (in ScaffoldInputs) Normalise() (ScaffoldInputs, []api.FieldProblem) {
	var problems []api.FieldProblem
	addf := func(location, format string, args ...any) {
		problems = append(problems, api.FieldProblem{Location: location, Message: fmt.Sprintf(format, args...)})
	}
	out := ScaffoldInputs{Environment: in.Environment, Region: in.Region, Email: in.Email, Registry: in.Registry}

	switch {
	case !dnsLabel.MatchString(in.Environment):
		addf("environment", "must be 1 to 63 of a-z, 0-9 and -, with no - at either end")
	case in.Environment == DevelopmentEnvironment || in.Environment == "base":
		addf("environment", "must not be %s, which environments are generated from", in.Environment)
	}
	domain, message := hostname(in.Domain)
	if message != "" {
		addf("domain", "%s", message)
	}
	out.Domain = domain
	if !regionForm.MatchString(in.Region) {
		addf("region", "must be an AWS region, such as eu-west-1")
	}
	if address, err := mail.ParseAddress(in.Email); err != nil || address.Name != "" || !emailForm.MatchString(in.Email) || len(in.Email) > 254 {
		addf("email", "must be an e-mail address, without a name")
	}
	if in.Registry != (Registry{}) {
		server, username := in.Registry.Server, in.Registry.Username
		if host, port, _ := strings.Cut(server, ":"); !registryForm.MatchString(server) || len(host) > 253 || badPort(port) {
			addf("registry.server", "must be a host, or host:port, without scheme or path")
		}
		if username == "" || len(username) > 255 || strings.ContainsFunc(username, notPrintable) || strings.Contains(username, ":") {
			addf("registry.username", "must be 1 to 255 printable characters other than a colon")
		}
	}
	if in.Services != nil {
		out.Services = make(map[string]api.ScaffoldService, len(in.Services))
	}
	if in.Services != nil && len(in.Services) == 0 {
		addf("services", "must name at least one service, or be left out for all of them")
	}
	owner := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(in.Services)) {
		s := in.Services[name]
		if !dnsLabel.MatchString(name) {
			addf("services", "has a name that is no service's: names have a-z, 0-9 and - only")
			continue
		}
		if s.Hostname != "" {
			host, message := hostname(s.Hostname)
			at := "services." + name + ".hostname"
			switch {
			case message != "":
				addf(at, "%s", message)
			case domain != "" && !inDomain(host, domain):
				addf(at, "must be the domain or end in it: external-dns manages no other names")
			case owner[host] != "":
				addf(at, "is the hostname of %s too", owner[host])
			}
			owner[host] = name
			s.Hostname = host
		}
		out.Services[name] = s
	}
	return out, problems
}

func badPort(port string) bool {
	if port == "" {
		return false
	}
	n, err := strconv.Atoi(port)
	return err != nil || n < 1 || n > 65535
}

func notPrintable(r rune) bool { return !unicode.IsPrint(r) }

func inDomain(host, domain string) bool {
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// hostname is a DNS name in lower case, in its ASCII form and without the dot of
// the root, or what is wrong with it.
func hostname(name string) (ascii, message string) {
	const form = "must be a DNS name of at least two labels, such as acme.example.com, without scheme, port, path or wildcard"
	name = strings.TrimSuffix(name, ".")
	ascii, err := idna.Lookup.ToASCII(name)
	if err != nil || len(ascii) > 253 {
		return "", form
	}
	labels := strings.Split(ascii, ".")
	if len(labels) < 2 {
		return "", form
	}
	for _, l := range labels {
		if !dnsLabel.MatchString(l) {
			return "", form
		}
	}
	if _, err := strconv.Atoi(labels[len(labels)-1]); err == nil { // an address, or what some take for one
		return "", form
	}
	return ascii, ""
}
