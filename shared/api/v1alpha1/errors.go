package v1alpha1

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is matched by every FieldErrors.
var ErrInvalid = errors.New("invalid environment")

// FieldError is one wrong field. It never repeats the field's value.
type FieldError struct {
	Field   string // path, like spec.customTemplates[0].file
	Message string // what is wrong, and where it helps what is right
}

// Error is field and message.
func (e FieldError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// FieldErrors are all wrong fields of an environment.
type FieldErrors []FieldError

// Error has a line for each field.
func (e FieldErrors) Error() string {
	if len(e) == 1 {
		return ErrInvalid.Error() + ": " + e[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d errors", ErrInvalid, len(e))
	for _, f := range e {
		b.WriteString("\n  " + f.Error())
	}
	return b.String()
}

// Is matches ErrInvalid.
func (e FieldErrors) Is(target error) bool { return target == ErrInvalid }

// err is nil if no field is wrong.
func (e FieldErrors) err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// add notes that field is wrong.
func (e *FieldErrors) add(field, message string) {
	*e = append(*e, FieldError{field, message})
}
