package systemd

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// splitWords splits a line as systemd does: white space between words, quotes
// around a word or a part of it, and a backslash before a character.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	open, quote, escaped := false, rune(0), false
	for _, r := range line {
		switch {
		case escaped:
			switch r {
			case 'n':
				word.WriteRune('\n')
			case 't':
				word.WriteRune('\t')
			default:
				word.WriteRune(r)
			}
			escaped = false
		case r == '\\' && quote != '\'':
			open, escaped = true, true
		case quote != 0:
			if r == quote {
				quote = 0
				continue
			}
			word.WriteRune(r)
		case r == '"' || r == '\'':
			open, quote = true, r
		case r == ' ' || r == '\t':
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		default:
			open = true
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("unbalanced quotes in %q", line)
	}
	if open {
		words = append(words, word.String())
	}
	return words, nil
}

// command is one line of ExecStart and its kin.
type command struct {
	args          []string
	ignoreFailure bool // a "-" before the path
}

func parseCommand(line string) (command, error) {
	var c command
	trimmed := strings.TrimLeft(line, "@-:+!|")
	c.ignoreFailure = strings.Contains(line[:len(line)-len(trimmed)], "-")
	words, err := splitWords(trimmed)
	if err != nil {
		return command{}, err
	}
	if len(words) == 0 {
		return command{}, errors.New("empty command")
	}
	c.args = words
	return c, nil
}

// expand replaces variables: ${X} anywhere in a word by its value, and the whole
// word $X by the words of its value.
func (c command) expand(env map[string]string) []string {
	args := []string{c.args[0]}
	for _, word := range c.args[1:] {
		if name, ok := strings.CutPrefix(word, "$"); ok && isName(name) {
			args = append(args, strings.Fields(env[name])...)
			continue
		}
		args = append(args, expandBraces(word, env))
	}
	return args
}

func expandBraces(word string, env map[string]string) string {
	var out strings.Builder
	for word != "" {
		before, after, found := strings.Cut(word, "$")
		out.WriteString(before)
		if !found {
			break
		}
		switch name, rest, closed := strings.Cut(strings.TrimPrefix(after, "{"), "}"); {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			after = after[1:]
		case strings.HasPrefix(after, "{") && closed && isName(name):
			out.WriteString(env[name])
			after = rest
		default:
			out.WriteByte('$')
		}
		word = after
	}
	return out.String()
}

func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// environment is what a unit's Environment and EnvironmentFile say, in systemd's
// order: files win.
func (u *unit) environment() (map[string]string, error) {
	env := map[string]string{}
	for _, line := range u.all("Service.Environment") {
		words, err := splitWords(line)
		if err != nil {
			return nil, err
		}
		for _, word := range words {
			if name, value, ok := strings.Cut(word, "="); ok && isName(name) {
				env[name] = value
			}
		}
	}
	for _, path := range u.all("Service.EnvironmentFile") {
		path, optional := strings.CutPrefix(path, "-")
		files, err := filepath.Glob(path)
		if err != nil {
			return nil, fmt.Errorf("environment file: %w", err)
		}
		if len(files) == 0 && !optional {
			return nil, fmt.Errorf("failed to load environment files: %s: no such file or directory", path)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil && !optional {
				return nil, fmt.Errorf("failed to load environment files: %w", err)
			}
			maps.Copy(env, parseEnvironment(string(content)))
		}
	}
	return env, nil
}

// parseEnvironment reads an environment file: assignments, comments, values with
// or without quotes. Nothing in it is expanded.
func parseEnvironment(text string) map[string]string {
	env := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || !isName(name) {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			inner := value[1 : n-1]
			if value[0] == '"' {
				inner = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(inner)
			}
			value = inner
		}
		env[name] = value
	}
	return env
}

// duration reads a time span: "5min 20s", or seconds without a unit. infinity is 0
// with ok.
func duration(text string) (time.Duration, error) {
	if text == "infinity" {
		return 0, nil
	}
	units := map[string]time.Duration{
		"": time.Second, "us": time.Microsecond, "usec": time.Microsecond, "ms": time.Millisecond, "msec": time.Millisecond,
		"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
		"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
		"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
		"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour, "w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
	}
	var total time.Duration
	rest := strings.TrimSpace(text)
	if rest == "" {
		return 0, errors.New("empty time span")
	}
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		number, err := strconv.ParseFloat(rest[:digits], 64)
		if err != nil {
			return 0, fmt.Errorf("time span %q: %w", text, err)
		}
		rest = strings.TrimLeft(rest[digits:], " ")
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		unit, ok := units[rest[:letters]]
		if !ok {
			return 0, fmt.Errorf("time span %q: unknown unit %q", text, rest[:letters])
		}
		total += time.Duration(number * float64(unit))
		rest = strings.TrimLeft(rest[letters:], " ")
	}
	return total, nil
}

// span is a setting that is a time span; a wrong one counts as not set, as
// systemd ignores it.
func (u *unit) span(key string, fallback time.Duration) time.Duration {
	text := u.get(key, "")
	if text == "" {
		return fallback
	}
	d, err := duration(text)
	if err != nil {
		return fallback
	}
	return d
}

func randomUpTo(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return rand.N(limit) //nolint:gosec // spreads timers, hides nothing
}
