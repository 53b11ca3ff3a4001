package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
)

// MaxCursor is what a cursor has at most, in bytes, for ids of up to 64.
const MaxCursor = 100

// ErrCursor is a cursor that no list of that filter has given.
var ErrCursor = errors.New("not a cursor of this list")

// Cursor is where the page of a list begins that follows the item of id last. It
// belongs to the filter: with another one, items would be missed unseen.
func Cursor(last string, filter any) (string, error) {
	sum, err := filterSum(filter)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(sum, last...)), nil
}

// ParseCursor gives the id that a cursor holds, empty for the empty cursor.
func ParseCursor(cursor string, filter any) (last string, err error) {
	if cursor == "" {
		return "", nil
	}
	sum, err := filterSum(filter)
	if err != nil {
		return "", err
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", ErrCursor
	}
	id, ok := bytes.CutPrefix(data, sum)
	if !ok || !validName(string(id)) { // Postgres takes neither NUL nor what is no UTF-8
		return "", ErrCursor
	}
	return string(id), nil
}

// filterSum tells filters apart. It keeps nobody from making a cursor by himself:
// there is nothing in one that its caller may not see.
func filterSum(filter any) ([]byte, error) {
	text, err := json.Marshal(filter)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return sum[:8], nil
}
