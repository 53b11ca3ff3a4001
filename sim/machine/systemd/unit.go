package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unit is what the files of a unit say.
type unit struct {
	name     string // with its instance
	path     string
	settings map[string][]string // by "Section.Key", in the files' order; an empty value forgets those before
}

func (u *unit) all(key string) []string { return u.settings[key] }

// words are the values of a setting that is a list of names.
func (u *unit) words(key string) []string {
	var words []string
	for _, value := range u.settings[key] {
		words = append(words, strings.Fields(value)...)
	}
	return words
}

func (u *unit) get(key, fallback string) string {
	values := u.settings[key]
	if len(values) == 0 {
		return fallback
	}
	return values[len(values)-1]
}

func (u *unit) flag(key string) bool {
	switch strings.ToLower(u.get(key, "no")) {
	case "1", "yes", "true", "on":
		return true
	}
	return false
}

var errNoUnit = errors.New("unit not found")

// loadUnit reads a unit from the first directory that has it, with its drop-ins
// from all of them.
func loadUnit(dirs []string, name string) (*unit, error) {
	u := &unit{name: name, settings: map[string][]string{}}
	files := []string{name}
	if template, _, ok := templateOf(name); ok {
		files = append(files, template)
	}
	for _, dir := range dirs {
		for _, file := range files {
			path := filepath.Join(dir, file)
			content, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("load %s: %w", name, err)
			}
			u.path = path
			if err := u.parse(string(content)); err != nil {
				return nil, fmt.Errorf("load %s: %w", path, err)
			}
			if err := u.loadDropIns(dirs, files); err != nil {
				return nil, err
			}
			u.expand()
			return u, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", errNoUnit, name)
}

// loadDropIns reads the drop-ins of all directories in the order of their names.
func (u *unit) loadDropIns(dirs, files []string) error {
	paths := map[string]string{}
	for _, dir := range slices.Backward(dirs) {
		for _, file := range slices.Backward(files) {
			found, err := filepath.Glob(filepath.Join(dir, file+".d", "*.conf"))
			if err != nil {
				return fmt.Errorf("load drop-ins of %s: %w", u.name, err)
			}
			for _, path := range found {
				paths[filepath.Base(path)] = path
			}
		}
	}
	names := make([]string, 0, len(paths))
	for name := range paths {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		content, err := os.ReadFile(paths[name])
		if err != nil {
			return fmt.Errorf("load drop-in of %s: %w", u.name, err)
		}
		if err := u.parse(string(content)); err != nil {
			return fmt.Errorf("load %s: %w", paths[name], err)
		}
	}
	return nil
}

// parse adds a file's settings.
func (u *unit) parse(text string) error {
	section := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		number, line := i+1, strings.TrimSpace(lines[i])
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			next := strings.TrimSpace(lines[i])
			if strings.HasPrefix(next, "#") || strings.HasPrefix(next, ";") {
				next = `\` // a comment within a continued line is skipped
			}
			line = strings.TrimSuffix(line, `\`) + " " + next
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = line[1 : len(line)-1]
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("line %d: missing '='", number)
		}
		if section == "" {
			return fmt.Errorf("line %d: assignment outside of section", number)
		}
		key = section + "." + strings.TrimSpace(key)
		if value = strings.TrimSpace(value); value == "" {
			u.settings[key] = nil
			continue
		}
		u.settings[key] = append(u.settings[key], value)
	}
	return nil
}

// expand replaces specifiers. Unknown ones are left as they are.
func (u *unit) expand() {
	_, instance, _ := templateOf(u.name)
	prefix := strings.TrimSuffix(u.name, filepath.Ext(u.name))
	base, _, _ := strings.Cut(prefix, "@")
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	replacer := strings.NewReplacer("%%", "%", "%i", instance, "%I", instance, "%n", u.name, "%N", prefix, "%p", base,
		"%H", host, "%t", "/run", "%S", "/var/lib", "%L", "/var/log", "%E", "/etc", "%T", "/tmp", "%h", "/root", "%u", "root")
	for _, values := range u.settings {
		for i := range values {
			values[i] = replacer.Replace(values[i])
		}
	}
}

// templateOf splits a@b.service into a@.service and b.
func templateOf(name string) (template, instance string, ok bool) {
	extension := filepath.Ext(name)
	before, after, found := strings.Cut(strings.TrimSuffix(name, extension), "@")
	if !found || after == "" {
		return "", "", false
	}
	return before + "@" + extension, after, true
}

// fullName adds .service where a name has no type.
func fullName(name string) string {
	switch filepath.Ext(name) {
	case ".service", ".timer", ".target", ".socket", ".mount", ".path", ".slice", ".scope", ".swap", ".device", ".automount":
		return name
	}
	return name + ".service"
}
