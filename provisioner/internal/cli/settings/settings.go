// Package settings finds out which service kubeopera speaks to and with which API
// key: from flags, else from the environment, else from a context of the
// configuration file.
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

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/redact"
)

// Options are what flags say; empty for what was not given.
type Options struct {
	ConfigFile string
	Context    string
	URL        string
	APIKeyFile string
	CAFile     string
}

// Settings are what a client needs.
type Settings struct {
	Context string // of the configuration file; empty if none is used
	URL     string
	APIKey  redact.Secret
	CAFile  string // PEM certificates to trust in place of the system's; may be empty
}

// Context is a service of the configuration file. Relative paths begin in its folder.
type Context struct {
	URL        string `json:"url"`
	APIKeyFile string `json:"api_key_file,omitempty"`
	CAFile     string `json:"ca_file,omitempty"`
}

// File is the configuration file.
type File struct {
	CurrentContext string             `json:"current_context,omitempty"`
	Contexts       map[string]Context `json:"contexts"`
}

// maxFile bounds what is read of a file, in bytes.
const maxFile = 1 << 20

// Read finds the settings.
func Read(o Options, getenv func(string) string) (Settings, error) {
	context, name, err := readContext(o, getenv)
	if err != nil {
		return Settings{}, err
	}
	s := Settings{
		Context: name,
		URL:     first(o.URL, getenv("KUBEOPERA_URL"), context.URL),
		CAFile:  first(o.CAFile, getenv("KUBEOPERA_CA_FILE"), context.CAFile),
	}
	if s.URL == "" {
		return Settings{}, errors.New("the service's URL is not known: use --url, KUBEOPERA_URL or a context of the configuration file")
	}
	if s.APIKey, err = readKey(o, getenv, context, s.URL); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// readKey gives the key of the nearest source.
func readKey(o Options, getenv func(string) string, context Context, url string) (redact.Secret, error) {
	key, keyFile := getenv("KUBEOPERA_API_KEY"), getenv("KUBEOPERA_API_KEY_FILE")
	switch {
	case o.APIKeyFile != "":
		keyFile = o.APIKeyFile
	case key != "" && keyFile != "":
		return "", errors.New("KUBEOPERA_API_KEY and KUBEOPERA_API_KEY_FILE are both set; unset one")
	case key != "":
		return checkKey(key, "KUBEOPERA_API_KEY")
	case keyFile != "":
	case context.APIKeyFile != "" && url != context.URL:
		// A key must not go to another service because somebody named one.
		return "", errors.New("the URL is not the context's, so the context's API key is not sent to it: use --api-key-file, KUBEOPERA_API_KEY or KUBEOPERA_API_KEY_FILE")
	case context.APIKeyFile != "":
		keyFile = context.APIKeyFile
	default:
		return "", errors.New("there is no API key: use --api-key-file, KUBEOPERA_API_KEY, KUBEOPERA_API_KEY_FILE or api_key_file of a context")
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
func readContext(o Options, getenv func(string) string) (c Context, name string, err error) {
	file, path, err := ReadFile(o, getenv)
	name = first(o.Context, getenv("KUBEOPERA_CONTEXT"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && name != "":
		return Context{}, "", fmt.Errorf("context %q: there is no configuration file %s", name, path)
	case errors.Is(err, fs.ErrNotExist) && first(o.ConfigFile, getenv("KUBEOPERA_CONFIG")) == "":
		return Context{}, "", nil
	case err != nil:
		return Context{}, "", err
	}
	if name = first(name, file.CurrentContext); name == "" {
		return Context{}, "", nil
	}
	c, ok := file.Contexts[name]
	if !ok {
		return Context{}, "", fmt.Errorf("%s has no context %q; it has: %s", path, name, strings.Join(slices.Sorted(maps.Keys(file.Contexts)), ", "))
	}
	for _, p := range []*string{&c.APIKeyFile, &c.CAFile} {
		*p = absolute(*p, filepath.Dir(path), getenv("HOME"))
	}
	return c, name, nil
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
