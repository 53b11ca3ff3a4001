// Package settings finds out where a service is and which API key it wants: from
// flags, else from the environment, else from a context of the configuration file.
//
// Each service has settings of its own, and none is taken in place of another's: a
// key goes to the service that it was given for.
//
// The key itself is never a flag and never in the configuration file: both name a
// file that holds it.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/redact"
)

// Service is a service that has an API.
type Service struct {
	Name   string
	prefix string // of its settings but in the environment, such as scaffolder-
	flags  func(*Options) *Endpoint
	file   func(*Context) *Endpoint
}

// The services.
var (
	Provisioner = Service{
		"cluster-provisioner", "",
		func(o *Options) *Endpoint { return &o.Provisioner }, func(c *Context) *Endpoint { return &c.Endpoint },
	}
	Scaffolder = Service{
		"gitops-scaffolder", "scaffolder-",
		func(o *Options) *Endpoint { return &o.Scaffolder }, func(c *Context) *Endpoint { return &c.Scaffolder },
	}
)

// variable is one in the environment, such as KUBEOPERA_SCAFFOLDER_URL.
func (s Service) variable(name string) string {
	return "KUBEOPERA_" + strings.ToUpper(strings.ReplaceAll(s.prefix, "-", "_")) + name
}

// flag is one of the command line, such as --scaffolder-url.
func (s Service) flag(name string) string { return "--" + s.prefix + name }

// field is one of a context, such as scaffolder.url.
func (s Service) field(name string) string { return strings.ReplaceAll(s.prefix, "-", ".") + name }

// AddFlags adds the flags of a service.
func (s Service) AddFlags(f *pflag.FlagSet, o *Options) {
	e := s.flags(o)
	f.StringVar(&e.URL, s.prefix+"url", "", "address of "+s.Name)
	f.StringVar(&e.APIKeyFile, s.prefix+"api-key-file", "", "file that holds the API key for "+s.Name)
	f.StringVar(&e.CAFile, s.prefix+"ca-file", "", "PEM certificates of the CA to trust for "+s.Name)
}

// Endpoint says where a service is. Relative paths of the configuration file begin
// in its folder.
type Endpoint struct {
	URL        string `json:"url,omitempty"`
	APIKeyFile string `json:"api_key_file,omitempty"`
	CAFile     string `json:"ca_file,omitempty"`
}

// Options are what flags say; empty for what was not given.
type Options struct {
	ConfigFile  string
	Context     string
	Provisioner Endpoint
	Scaffolder  Endpoint
}

// Settings are what a client needs.
type Settings struct {
	URL    string
	APIKey redact.Secret
	CAFile string // PEM certificates to trust in place of the system's; may be empty
}

// Context is an installation of the platform: cluster-provisioner and what else
// there is.
type Context struct {
	Endpoint
	Scaffolder Endpoint `json:"scaffolder,omitzero"`
}

// File is the configuration file.
type File struct {
	CurrentContext string             `json:"current_context,omitempty"`
	Contexts       map[string]Context `json:"contexts"`
}

// maxFile bounds what is read of a file, in bytes.
const maxFile = 1 << 20

// Read finds the settings for a service.
func Read(service Service, o Options, getenv func(string) string) (Settings, error) {
	if service.Name != Provisioner.Name && o.Provisioner != (Endpoint{}) {
		return Settings{}, fmt.Errorf("--url, --api-key-file and --ca-file are %s's: use %s and the like for %s", Provisioner.Name, service.flag("url"), service.Name)
	}
	context, err := readContext(o, getenv)
	if err != nil {
		return Settings{}, err
	}
	flags, file := service.flags(&o), service.file(&context)
	s := Settings{
		URL:    first(flags.URL, getenv(service.variable("URL")), file.URL),
		CAFile: first(flags.CAFile, getenv(service.variable("CA_FILE")), file.CAFile),
	}
	if s.URL == "" {
		return Settings{}, fmt.Errorf("the URL of %s is not known: use %s, %s or %s of a context of the configuration file",
			service.Name, service.flag("url"), service.variable("URL"), service.field("url"))
	}
	if s.APIKey, err = service.readKey(flags.APIKeyFile, getenv, *file, s.URL); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// readKey gives the key of the nearest source.
func (s Service) readKey(flag string, getenv func(string) string, file Endpoint, url string) (redact.Secret, error) {
	inKey, inFile := s.variable("API_KEY"), s.variable("API_KEY_FILE")
	key, keyFile := getenv(inKey), getenv(inFile)
	switch {
	case flag != "":
		keyFile = flag
	case key != "" && keyFile != "":
		return "", fmt.Errorf("%s and %s are both set; unset one", inKey, inFile)
	case key != "":
		return checkKey(key, inKey)
	case keyFile != "":
	case file.APIKeyFile != "" && url != file.URL:
		// A key must not go to another service because somebody named one.
		return "", fmt.Errorf("the URL is not the context's, so the context's API key is not sent to it: use %s, %s or %s", s.flag("api-key-file"), inKey, inFile)
	case file.APIKeyFile != "":
		keyFile = file.APIKeyFile
	default:
		return "", fmt.Errorf("there is no API key for %s: use %s, %s, %s or %s of a context", s.Name, s.flag("api-key-file"), inKey, inFile, s.field("api_key_file"))
	}
	data, err := readFile(keyFile)
	if err != nil {
		return "", fmt.Errorf("read the API key: %w", err)
	}
	return checkKey(strings.TrimSpace(string(data)), keyFile)
}

func checkKey(key, source string) (redact.Secret, error) {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("the API key in %s must be one line of printable ASCII without spaces", source)
	}
	return redact.Secret(key), nil
}

// readContext gives the chosen context of the configuration file; the zero one if
// neither a file nor a context was asked for and there is none.
func readContext(o Options, getenv func(string) string) (Context, error) {
	file, path, err := ReadFile(o, getenv)
	name := first(o.Context, getenv("KUBEOPERA_CONTEXT"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && name != "":
		return Context{}, fmt.Errorf("context %q: there is no configuration file %s", name, path)
	case errors.Is(err, fs.ErrNotExist) && first(o.ConfigFile, getenv("KUBEOPERA_CONFIG")) == "":
		return Context{}, nil
	case err != nil:
		return Context{}, err
	}
	if name = first(name, file.CurrentContext); name == "" {
		return Context{}, nil
	}
	c, ok := file.Contexts[name]
	if !ok {
		return Context{}, fmt.Errorf("%s has no context %q; it has: %s", path, name, strings.Join(slices.Sorted(maps.Keys(file.Contexts)), ", "))
	}
	for _, p := range []*string{&c.APIKeyFile, &c.CAFile, &c.Scaffolder.APIKeyFile, &c.Scaffolder.CAFile} {
		*p = absolute(*p, filepath.Dir(path), getenv("HOME"))
	}
	return c, nil
}

// ReadFile reads the configuration file, which need not exist, and gives its path.
func ReadFile(o Options, getenv func(string) string) (File, string, error) {
	path := first(o.ConfigFile, getenv("KUBEOPERA_CONFIG"), DefaultFile(getenv))
	data, err := readFile(path)
	if err != nil {
		return File{}, path, fmt.Errorf("read the configuration: %w", err)
	}
	var f File
	data, err = yaml.YAMLToJSONStrict(data)
	if err != nil {
		return File{}, path, fmt.Errorf("%s: %w", path, err)
	}
	strict, err := json.UnmarshalStrict(data, &f)
	if err := errors.Join(append(strict, err)...); err != nil {
		return File{}, path, fmt.Errorf("%s: %w", path, err)
	}
	return f, path, nil
}

// DefaultFile is where the configuration file is unless something else is said.
func DefaultFile(getenv func(string) string) string {
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(getenv("HOME"), ".config")
	}
	return filepath.Join(dir, "kubeopera", "config.yaml")
}

func absolute(path, dir, home string) string {
	switch {
	case path == "" || filepath.IsAbs(path):
		return path
	case strings.HasPrefix(path, "~/") && home != "":
		return filepath.Join(home, path[2:])
	}
	return filepath.Join(dir, path)
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return os.ReadFile(path) //nolint:gosec // whoever runs the program names the file
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
