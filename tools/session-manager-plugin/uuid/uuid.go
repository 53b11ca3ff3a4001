// Package uuid has what AWS's Session Manager plugin calls of a release of
// github.com/twinj/uuid that is no longer to be had. Written for the build of
// the plugin as a test's oracle; nothing else uses it.
package uuid

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Format is how a UUID is written.
type Format string

// CleanHyphen is the one form there is: 8-4-4-4-12 hexadecimal digits.
const CleanHyphen Format = "%x-%x-%x-%x-%x"

// SwitchFormat does nothing, since there is one form.
func SwitchFormat(Format) {}

// UUID is 16 bytes, the most significant first.
type UUID interface {
	Bytes() []byte
	String() string
}

type array [16]byte

func (a *array) Bytes() []byte { return a[:] }

func (a *array) String() string {
	return fmt.Sprintf(string(CleanHyphen), a[:4], a[4:6], a[6:8], a[8:10], a[10:])
}

// New takes 16 bytes.
func New(b []byte) UUID {
	a := new(array)
	copy(a[:], b)
	return a
}

// NewV4 is a random UUID.
func NewV4() UUID {
	a := new(array)
	_, _ = rand.Read(a[:]) // never fails
	a[6] = a[6]&0x0f | 0x40
	a[8] = a[8]&0x3f | 0x80
	return a
}

// Parse reads the form with hyphens.
func Parse(s string) (UUID, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != 16 {
		return nil, errors.New("not a UUID")
	}
	return New(b), nil
}
