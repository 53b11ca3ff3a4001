package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Table collects what was measured. The zero value is ready.
type Table struct{ rows [][3]string }

// Add adds a row. A goal may be empty.
func (t *Table) Add(what, measured, goal string) {
	t.rows = append(t.rows, [3]string{what, measured, goal})
}

// Write writes the rows as Markdown, below a line about the machine; nothing
// without rows.
func (t *Table) Write(w io.Writer) error {
	if len(t.rows) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s\n\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"), machine())
	b.WriteString("| measured | result | goal |\n|---|---|---|\n")
	for _, row := range t.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row[:], " | "))
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// Verdict is a goal with whether it was met.
func Verdict(goal string, met bool) string {
	if met {
		return goal + ": met"
	}
	return goal + ": missed"
}

// Milliseconds is a duration for the table.
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// Seconds is a duration for the table.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// machine says what this is measured on and what else it is busy with.
func machine() string {
	load := strings.Fields(read("/proc/loadavg"))
	if len(load) == 0 {
		load = []string{"unknown"}
	}
	return fmt.Sprintf("%s, %d cores, %s, load %s, %s/%s",
		field("/proc/cpuinfo", "model name"), runtime.NumCPU(), runtime.Version(), load[0], runtime.GOOS, runtime.GOARCH)
}

// field is the first value of a name in a file of "name: value" lines.
func field(file, name string) string {
	for lines := bufio.NewScanner(strings.NewReader(read(file))); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func read(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(data)
}
