package systemd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Journal is the machine's log: a file with an entry per line, which several
// processes append to.
type Journal struct {
	path    string
	console io.Writer // also gets every entry; nil: nobody
	mu      sync.Mutex
}

// NewJournal makes a journal that is kept in a file.
func NewJournal(path string, console io.Writer) (*Journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return &Journal{path: path, console: console}, nil
}

// Add writes a line of a unit (or none) under a tag.
func (j *Journal) Add(unit, tag string, pid int, line string) {
	line = strings.ToValidUTF8(strings.TrimRight(line, "\r\n"), "\uFFFD")
	source := tag
	if pid > 0 {
		source = fmt.Sprintf("%s[%d]", tag, pid)
	}
	entry := fmt.Sprintf("%s\t%s\t%s\t%s\n", time.Now().UTC().Format(time.RFC3339Nano), unit, source, line)
	j.mu.Lock()
	defer j.mu.Unlock()
	file, err := os.OpenFile(j.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err == nil {
		_, err = io.WriteString(file, entry)
		err = errors.Join(err, file.Close())
	}
	if j.console != nil {
		if err != nil {
			line += fmt.Sprintf(" (not in the journal: %v)", err)
		}
		_, _ = fmt.Fprintf(j.console, "%s %s: %s\n", time.Now().UTC().Format("15:04:05.000"), source, line)
	}
}

// Copy writes what a reader has, line by line.
func (j *Journal) Copy(unit, tag string, pid int, from io.Reader) {
	reader := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := reader.ReadString('\n')
		if line != "" {
			j.Add(unit, tag, pid, line)
		}
		if err != nil {
			return
		}
	}
}

// Journalctl is the command of that name.
func (j *Journal) Journalctl(args []string, stdout, stderr io.Writer) int {
	units, tags := map[string]bool{}, map[string]bool{}
	lines, format, reverse := -1, "short", false
	for i := 0; i < len(args); i++ {
		option, value, hasValue := strings.Cut(args[i], "=")
		if !strings.HasPrefix(args[i], "--") {
			option, value, hasValue = args[i], "", false
			if len(args[i]) > 2 && strings.Contains("untop", args[i][1:2]) {
				option, value, hasValue = args[i][:2], args[i][2:], true
			}
		}
		take := func() string {
			if !hasValue && i+1 < len(args) {
				i++
				return args[i]
			}
			return value
		}
		switch option {
		case "-u", "--unit":
			units[fullName(take())] = true
		case "-t", "--identifier":
			tags[take()] = true
		case "-o", "--output":
			format = take()
		case "-n", "--lines":
			number := take()
			count, err := strconv.Atoi(number)
			if err != nil && number != "all" {
				_, _ = fmt.Fprintf(stderr, "Failed to parse lines '%s'\n", number)
				return 1
			}
			if err == nil {
				lines = count
			}
		case "-p", "--priority", "--since", "-S", "--until", "-U", "--vacuum-time", "--vacuum-size":
			take()
		case "-r", "--reverse":
			reverse = true
		case "-b", "--boot", "--no-pager", "-q", "--quiet", "-x", "-e", "-a", "--no-hostname", "-k", "--flush", "--sync", "--rotate":
		default:
			_, _ = fmt.Fprintf(stderr, "journalctl: the light machine does not have the option '%s'\n", args[i])
			return 1
		}
	}
	content, err := os.ReadFile(j.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	var out []string
	for line := range strings.Lines(string(content)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 4)
		if len(fields) != 4 {
			continue
		}
		tag, _, _ := strings.Cut(fields[2], "[")
		if len(units) > 0 && !units[fields[1]] || len(tags) > 0 && !tags[tag] {
			continue
		}
		out = append(out, entryText(fields, format))
	}
	if lines >= 0 && len(out) > lines {
		out = out[len(out)-lines:]
	}
	if len(out) == 0 {
		out = []string{"-- No entries --"}
	}
	for i := range out {
		if reverse {
			i = len(out) - 1 - i
		}
		_, _ = fmt.Fprintln(stdout, out[i])
	}
	return 0
}

func entryText(fields []string, format string) string {
	if format == "cat" {
		return fields[3]
	}
	at, err := time.Parse(time.RFC3339Nano, fields[0])
	if err != nil {
		at = time.Time{}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s %s %s: %s", at.Format("Jan 02 15:04:05"), host, fields[2], fields[3])
}
