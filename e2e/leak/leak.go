// Package leak looks for secrets where none may be: in files, objects and
// texts that a run of the platform left behind.
package leak

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
)

// Scanner knows the secrets (canaries) of a run.
type Scanner struct {
	forms map[uint64][]form // by their first eight bytes
	seen  [1 << 16]bool     // which slots the keys of forms fall into, so that most of the data needs no more than a look here
}

// form is what a secret looks like somewhere.
type form struct {
	name  string
	bytes []byte
}

// key is the first eight bytes, of which there must be as many.
func key(data []byte) uint64 { return binary.LittleEndian.Uint64(data) }

func slot(key uint64) uint16 { return uint16(key * 0x9e3779b97f4a7c15 >> 48) }

func (s *Scanner) add(name string, data []byte) {
	k := key(data)
	s.forms[k] = append(s.forms[k], form{name, data})
	s.seen[slot(k)] = true
}

// New makes a scanner for secrets by name. Each is looked for as it is, in
// base64 and URL-encoded.
func New(secrets map[string]string) (*Scanner, error) {
	s := &Scanner{forms: map[uint64][]form{}}
	for name, secret := range secrets {
		if len(secret) < 12 {
			return nil, fmt.Errorf("%s is too short to be told from chance", name)
		}
		s.add(name, []byte(secret))
		s.add(name+" (URL-encoded)", []byte(url.QueryEscape(secret)))
		// The three alignments in which base64 can hold the secret, less the
		// characters that its neighbours have a say in.
		for skip := range 3 {
			encoded := base64.StdEncoding.EncodeToString(append(make([]byte, skip), secret...))
			from, to := (skip*8+5)/6, (skip+len(secret))*8/6
			s.add(fmt.Sprintf("%s (base64, offset %d)", name, skip), []byte(encoded[from:to]))
		}
	}
	return s, nil
}

// Scan gives an error that names every secret in data, or in what data is when
// it is unpacked with gzip; where says what data is.
func (s *Scanner) Scan(where string, data []byte) error {
	var found []string
	for i := 0; i+8 <= len(data); i++ {
		k := key(data[i:])
		if !s.seen[slot(k)] {
			continue
		}
		for _, f := range s.forms[k] {
			if bytes.HasPrefix(data[i:], f.bytes) && !slices.Contains(found, f.name) {
				found = append(found, f.name)
			}
		}
	}
	slices.Sort(found)
	var errs []error
	for _, name := range found {
		errs = append(errs, fmt.Errorf("%s holds %s", where, name))
	}
	if unpacked := gunzip(data); len(unpacked) > 0 {
		errs = append(errs, s.Scan(where+", unpacked,", unpacked))
	}
	return errors.Join(errs...)
}

// gunzip is what data is when it is unpacked, as far as it can be.
func gunzip(data []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	unpacked, _ := io.ReadAll(z) // up to where it breaks
	return unpacked
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
