// Package envconfig reads the configuration of a service from environment
// variables.
//
// A service lists its variables once, as Settings: reading, --help and the
// documentation's table all come from that list. Read reports everything that is
// wrong at once and repeats no value. The functions of parse.go set fields of the
// configuration's struct.
package envconfig

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// Setting is one environment variable of a configuration of type C.
type Setting[C any] struct {
	Name     string
	Fallback string // its value when it is not set
	Required bool
	Help     string
	// Set sets what the variable stands for. Its error leaves the value out.
	Set func(c *C, value string) error
}

// Read reads a configuration. Its error names every variable that is missing or
// wrong, and none of their values.
func Read[C any](settings []Setting[C], getenv func(string) string) (C, error) {
	var c, none C
	var errs []error
	for _, s := range settings {
		value := getenv(s.Name)
		if value == "" {
			value = s.Fallback
		}
		if value == "" {
			if s.Required {
				errs = append(errs, fmt.Errorf("%s is required: %s", s.Name, s.Help))
			}
			continue
		}
		if err := s.Set(&c, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return none, fmt.Errorf("configuration:\n%w", err)
	}
	return c, nil
}

// WriteHelp writes every variable with its default.
func WriteHelp[C any](w io.Writer, settings []Setting[C]) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range settings {
		note := ""
		switch {
		case s.Required:
			note = " (required)"
		case s.Fallback != "":
			note = " (default " + s.Fallback + ")"
		}
		if _, err := fmt.Fprintf(table, "  %s\t%s%s\n", s.Name, s.Help, note); err != nil {
			return err
		}
	}
	return table.Flush()
}

// Within makes settings of a part of a configuration settings of the whole.
func Within[C, Part any](settings []Setting[Part], part func(*C) *Part) []Setting[C] {
	out := make([]Setting[C], len(settings))
	for i, s := range settings {
		out[i] = Setting[C]{
			Name: s.Name, Fallback: s.Fallback, Required: s.Required, Help: s.Help,
			Set: func(c *C, value string) error { return s.Set(part(c), value) },
		}
	}
	return out
}
