// Package leak looks for secrets where none may be: in files, objects and
// texts that a run of the platform left behind.
package leak

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// Scanner knows the secrets (canaries) of a run.
type Scanner struct {
	forms map[string][]byte // description → bytes to look for
}

// New makes a scanner for secrets by name. Each is looked for as it is, in
// base64 and URL-encoded.
func New(secrets map[string]string) (*Scanner, error) {
	s := &Scanner{forms: map[string][]byte{}}
	for name, secret := range secrets {
		if len(secret) < 12 {
			return nil, fmt.Errorf("%s is too short to be told from chance", name)
		}
		s.forms[name] = []byte(secret)
		s.forms[name+" (URL-encoded)"] = []byte(url.QueryEscape(secret))
		// The three alignments in which base64 can hold the secret, less the
		// characters that its neighbours have a say in.
		for skip := range 3 {
			encoded := base64.StdEncoding.EncodeToString(append(make([]byte, skip), secret...))
			from, to := (skip*8+5)/6, (skip+len(secret))*8/6
			s.forms[fmt.Sprintf("%s (base64, offset %d)", name, skip)] = []byte(encoded[from:to])
		}
	}
	return s, nil
}

// Scan gives an error that names every secret in data; where says what data is.
func (s *Scanner) Scan(where string, data []byte) error {
	var errs []error
	for name, form := range s.forms {
		if bytes.Contains(data, form) {
			errs = append(errs, fmt.Errorf("%s holds %s", where, name))
		}
	}
	return errors.Join(errs...)
}

// ScanDir scans every regular file below dir but those for which skip is true;
// skip gets the path relative to dir.
func (s *Scanner) ScanDir(dir string, skip func(path string) bool) (files int, err error) {
	var errs []error
	walk := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if skip(relative) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		files++
		errs = append(errs, s.Scan(path, data))
		return nil
	})
	return files, errors.Join(append(errs, walk)...)
}
