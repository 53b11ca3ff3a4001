// Package request gathers what a command asks for: from a file (YAML or JSON), from
// a flag for each field, which overrules the file, and of secrets from files and the
// environment. A secret is never an argument.
package request

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
)

// Flags gather a request Q from -f and the flags of its fields.
type Flags[Q any] struct {
	cmd  *cobra.Command
	file string
	set  []func(*Input, *Q) error
}

// For is a request that comes from flags only.
func For[Q any](cmd *cobra.Command) *Flags[Q] { return &Flags[Q]{cmd: cmd} }

// New adds -f to a command.
func New[Q any](cmd *cobra.Command) *Flags[Q] {
	f := For[Q](cmd)
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "file with the request as YAML or JSON, - for standard input; flags overrule its fields")
	return f
}

// Read gives the request.
func (f *Flags[Q]) Read(in *Input) (Q, error) {
	var q Q
	if f.file != "" {
		data, err := in.Read("--file", f.file)
		if err != nil {
			return q, err
		}
		if err := Decode(data, &q); err != nil {
			return q, exit.Usagef("%s: %w", f.file, err)
		}
	}
	for _, set := range f.set {
		if err := set(in, &q); err != nil {
			return q, err
		}
	}
	return q, nil
}

// File is the request's file as it was named, for messages.
func (f *Flags[Q]) File() string { return f.file }

// When runs set on the request if the flag was given.
func (f *Flags[Q]) When(flag string, set func(in *Input, q *Q) error) {
	f.set = append(f.set, func(in *Input, q *Q) error {
		if !f.cmd.Flags().Changed(flag) {
			return nil
		}
		return set(in, q)
	})
}

// Always runs set on the request after what was added before.
func (f *Flags[Q]) Always(set func(in *Input, q *Q) error) { f.set = append(f.set, set) }

// Values offers values for a flag to the shell's completion; without any it offers
// nothing, not even files.
func (f *Flags[Q]) Values(flag string, values ...string) {
	_ = f.cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// Text adds a flag for a text.
func Text[Q any, T ~string](f *Flags[Q], name, usage string, field func(*Q) *T) {
	value := f.cmd.Flags().String(name, "", usage)
	f.When(name, func(_ *Input, q *Q) error { *field(q) = T(*value); return nil })
}

// Number adds a flag for a number that may be absent.
func Number[Q any](f *Flags[Q], name, usage string, field func(*Q) **int) {
	value := f.cmd.Flags().Int(name, 0, usage)
	f.When(name, func(_ *Input, q *Q) error { *field(q) = value; return nil })
}

// Bool adds a flag for a switch.
func Bool[Q any](f *Flags[Q], name, usage string, field func(*Q) *bool) {
	value := f.cmd.Flags().Bool(name, false, usage)
	f.When(name, func(_ *Input, q *Q) error { *field(q) = *value; return nil })
}

// List adds a flag for texts, separated by commas.
func List[Q any](f *Flags[Q], name, usage string, field func(*Q) *[]string) {
	value := f.cmd.Flags().StringSlice(name, nil, usage)
	f.When(name, func(_ *Input, q *Q) error { *field(q) = *value; return nil })
}

// Map adds a flag for texts by name, as name=value separated by commas.
func Map[Q any](f *Flags[Q], name, usage string, field func(*Q) *map[string]string) {
	var value map[string]string
	f.cmd.Flags().StringToStringVar(&value, name, nil, usage)
	f.cmd.Flags().Lookup(name).DefValue = ""
	f.When(name, func(_ *Input, q *Q) error { *field(q) = value; return nil })
}

// Content adds a flag for the name of a file whose text is the field.
func Content[Q any](f *Flags[Q], name, usage string, field func(*Q) *string) {
	path := f.cmd.Flags().String(name, "", usage+" (a file, - for standard input)")
	f.When(name, func(in *Input, q *Q) error {
		data, err := in.Read("--"+name, *path)
		if err != nil {
			return err
		}
		*field(q) = string(data)
		return nil
	})
}

// Secret adds a flag for the name of a file that holds a secret. A line end at its
// end is not part of the secret if it is one line.
func Secret[Q any](f *Flags[Q], name, variable, usage string, field func(*Q) *string) {
	path := f.cmd.Flags().String(name, "", fmt.Sprintf("file with %s, - for standard input; or $%s", usage, variable))
	f.When(name, func(in *Input, q *Q) error {
		secret, err := in.Secret("--"+name, *path)
		if err != nil {
			return err
		}
		*field(q) = secret
		return nil
	})
}

// Decode reads YAML or JSON. Fields that the target does not have, names in another
// case, fields twice and values of another type are errors.
func Decode(data []byte, into any) error {
	// Without the target type, so that an unquoted version 1.30 is the number that
	// YAML makes of it, and an error, not the text 1.3.
	data, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	if string(data) == "null" {
		return errors.New("it is empty")
	}
	strict, err := json.UnmarshalStrict(data, into)
	if err != nil && strings.Contains(err.Error(), "number into Go struct field") && strings.HasSuffix(err.Error(), "of type string") {
		err = fmt.Errorf("%w; put the value in quotes", err)
	}
	return errors.Join(append(strict, err)...)
}
