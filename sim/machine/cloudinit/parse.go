package cloudinit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxSize bounds what user_data, or a file in it, may unpack to.
const maxSize = 1 << 20

// Config is what user_data asks for. Empty user_data asks for nothing.
type Config struct {
	Script   []byte // the whole user_data is a script
	Files    []File
	BootCmd  []Command // before anything else, at every boot
	RunCmd   []Command // last, at the first boot
	Hostname string    // empty: the one that the metadata service gives
}

// File is an entry of write_files.
type File struct {
	Path    string
	Content []byte
	Mode    fs.FileMode
	Owner   string // "user:group" or empty; all is root's on a light machine
	Append  bool
	Defer   bool // to after bootcmd and package installation
}

// Command is an entry of runcmd: a shell line, or words.
type Command struct {
	Line  string
	Words []string
}

// Shell is the command as a line for sh.
func (c Command) Shell() string {
	if c.Words == nil {
		return c.Line
	}
	quoted := make([]string, len(c.Words))
	for i, word := range c.Words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// Parse reads user_data as the metadata service gives it.
func Parse(userData []byte) (Config, error) {
	text, err := unpack(userData)
	if err != nil {
		return Config{}, fmt.Errorf("user_data: %w", err)
	}
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return Config{}, nil
	case bytes.HasPrefix(text, []byte("#!")):
		return Config{Script: text}, nil
	case isCloudConfig(text):
		config, err := parseConfig(text)
		if err != nil {
			return Config{}, fmt.Errorf("user_data: cloud-config: %w", err)
		}
		return config, nil
	default:
		first, _, _ := bytes.Cut(text, []byte("\n"))
		return Config{}, fmt.Errorf("user_data: it starts with %.40q: neither a script nor #cloud-config", first)
	}
}

func isCloudConfig(text []byte) bool {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	return string(bytes.TrimSpace(first)) == "#cloud-config"
}

func unpack(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("gzip: more than %d bytes unpacked", maxSize)
	}
	return text, nil
}

// document is the YAML of a cloud-config.
type document struct {
	WriteFiles       []fileEntry    `json:"write_files"`
	BootCmd          []commandEntry `json:"bootcmd"`
	RunCmd           []commandEntry `json:"runcmd"`
	Hostname         string         `json:"hostname"`
	PreserveHostname *bool          `json:"preserve_hostname"`
	// Known and without effect on a light machine.
	Output        any `json:"output"`
	PackageUpdate any `json:"package_update"`
	Growpart      any `json:"growpart"`
	DisableRoot   any `json:"disable_root"`
	SSHPwauth     any `json:"ssh_pwauth"`
}

type fileEntry struct {
	Path        string          `json:"path"`
	Content     string          `json:"content"`
	Encoding    string          `json:"encoding"`
	Owner       string          `json:"owner"`
	Permissions json.RawMessage `json:"permissions"`
	Append      bool            `json:"append"`
	Defer       bool            `json:"defer"`
}

type commandEntry struct{ command Command }

func (c *commandEntry) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &c.command.Line) == nil {
		return nil
	}
	if err := json.Unmarshal(data, &c.command.Words); err != nil || len(c.command.Words) == 0 {
		return errors.New("a command is a string or a list of strings")
	}
	return nil
}

func parseConfig(text []byte) (Config, error) {
	var d document
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		return Config{}, err
	}
	config := Config{Hostname: d.Hostname}
	for i, entry := range d.WriteFiles {
		file, err := entry.file()
		if err != nil {
			return Config{}, fmt.Errorf("write_files %d: %w", i, err)
		}
		config.Files = append(config.Files, file)
	}
	for _, entry := range d.BootCmd {
		config.BootCmd = append(config.BootCmd, entry.command)
	}
	for _, entry := range d.RunCmd {
		config.RunCmd = append(config.RunCmd, entry.command)
	}
	return config, nil
}

func (e fileEntry) file() (File, error) {
	if !path.IsAbs(e.Path) || path.Clean(e.Path) != e.Path || e.Path == "/" {
		return File{}, fmt.Errorf("path %q is not absolute and clean", e.Path)
	}
	content, err := decode(e.Content, e.Encoding)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", e.Path, err)
	}
	mode, err := e.mode()
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", e.Path, err)
	}
	return File{Path: e.Path, Content: content, Mode: mode, Owner: e.Owner, Append: e.Append, Defer: e.Defer}, nil
}

// mode reads permissions as cloud-init does: a string is octal, a number is what
// YAML made of it (where 0644 is octal and 644 is not).
func (e fileEntry) mode() (fs.FileMode, error) {
	if len(e.Permissions) == 0 || string(e.Permissions) == "null" {
		return 0o644, nil
	}
	var octal string
	base := 8
	if json.Unmarshal(e.Permissions, &octal) != nil {
		octal, base = string(e.Permissions), 10
	}
	mode, err := strconv.ParseUint(octal, base, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("permissions %s are not an octal mode", e.Permissions)
	}
	return fs.FileMode(mode), nil
}

func decode(content, encoding string) ([]byte, error) {
	var steps []string
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "text/plain":
	case "b64", "base64":
		steps = []string{"base64"}
	case "gz", "gzip":
		steps = []string{"gzip"}
	case "gz+b64", "gz+base64", "gzip+b64", "gzip+base64":
		steps = []string{"base64", "gzip"}
	default:
		return nil, fmt.Errorf("unknown encoding %q", encoding)
	}
	data := []byte(content)
	if slices.Contains(steps, "base64") {
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(content), "")); err != nil {
			return nil, fmt.Errorf("base64: %w", err)
		}
	}
	if slices.Contains(steps, "gzip") {
		if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			return nil, errors.New("gzip: the content is not compressed")
		}
		return unpack(data)
	}
	return data, nil
}
