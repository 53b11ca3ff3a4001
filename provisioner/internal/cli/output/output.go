// Package output prints results in the form that -o asks for.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
)

// Format is a form of output; it is a flag's value.
type Format string

// The formats.
const (
	Table Format = "table" // for people; may change
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name" // ids only, one a line
)

var formats = []string{string(Table), string(JSON), string(YAML), string(Name)}

// Flag adds -o to a command.
func Flag(cmd *cobra.Command) *Format {
	f := Table
	cmd.Flags().VarP(&f, "output", "o", "form of the result: "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return &f
}

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *Format) Set(s string) error {
	if !slices.Contains(formats, s) {
		return fmt.Errorf("must be one of %s", strings.Join(formats, ", "))
	}
	*f = Format(s)
	return nil
}

// Result is something to print: a value for programs and a table for people.
type Result struct {
	Value any
	Names []string
	Rows  [][]string // the first is the heading, unless Fields is true
	// Fields is true for rows of a name and a value.
	Fields bool
}

// Print writes a result.
func Print(w io.Writer, f Format, r Result) error {
	switch f {
	case JSON:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r.Value)
	case YAML:
		data, err := yaml.Marshal(r.Value)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	case Name:
		for _, name := range r.Names {
			if _, err := fmt.Fprintln(w, terminal.Clean(name)); err != nil {
				return err
			}
		}
		return nil
	case Table:
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, row := range r.Rows {
		cells := make([]string, len(row))
		for j, cell := range row {
			cells[j] = terminal.Clean(cell)
			if cells[j] == "" && !r.Fields {
				cells[j] = "-"
			}
		}
		switch {
		case r.Fields:
			cells[0] += ":"
		case i == 0:
			for j := range cells {
				cells[j] = strings.ToUpper(cells[j])
			}
		}
		if _, err := fmt.Fprintln(t, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}
