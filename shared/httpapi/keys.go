package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// recheck is how often at most the key file is looked at.
const recheck = time.Second

// settled is the age from which on a file's modification time tells one content
// from another; clocks of file systems are coarse.
const settled = 2 * time.Second

// Keys are the API keys of a service, read from a file that is read again when
// it has changed. Each line is name:sha256, the digest of the key in hex; empty
// lines and lines that begin with # are skipped. Several keys are valid at once,
// under one name or several, so that they can be rotated.
type Keys struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	current atomic.Pointer[[]apiKey]

	mu      sync.Mutex // held by whoever looks at the file; the others go on with current
	checked time.Time
	seen    os.FileInfo // the file when it was last read, nil if it could not be
	failed  string      // the last failure, so that it is logged once
}

type apiKey struct {
	name   string
	digest [sha256.Size]byte
}

// OpenKeys reads the key file. A file that is missing, broken or without a key
// is an error: a service without keys must not start.
func OpenKeys(path string, log *slog.Logger) (*Keys, error) {
	k := &Keys{path: path, log: log, now: time.Now}
	if err := k.read(); err != nil {
		return nil, err
	}
	k.checked = k.now()
	return k, nil
}

// Lookup names the key, if it is valid. It compares with every key, and each in
// constant time, so that how long it takes says nothing.
func (k *Keys) Lookup(ctx context.Context, key string) (name string, ok bool) {
	k.refresh(ctx)
	digest := sha256.Sum256([]byte(key))
	for _, candidate := range *k.current.Load() {
		if subtle.ConstantTimeCompare(candidate.digest[:], digest[:]) == 1 {
			name, ok = candidate.name, true
		}
	}
	return name, ok
}

// refresh reads the file again if it has changed. A file that cannot be read or
// is broken leaves the keys as they were: rotation is done by people.
func (k *Keys) refresh(ctx context.Context) {
	if !k.mu.TryLock() {
		return
	}
	defer k.mu.Unlock()
	now := k.now()
	if now.Sub(k.checked) < recheck {
		return
	}
	k.checked = now
	info, err := os.Stat(k.path)
	if err == nil && k.seen != nil && os.SameFile(info, k.seen) && info.ModTime().Equal(k.seen.ModTime()) &&
		info.Size() == k.seen.Size() && now.Sub(info.ModTime()) > settled {
		return
	}
	if err == nil {
		err = k.read()
	}
	switch {
	case err != nil && err.Error() != k.failed:
		k.failed = err.Error()
		k.log.ErrorContext(ctx, "API keys not read again, the old ones stay valid", "error", err)
	case err == nil && k.failed != "":
		k.failed = ""
		k.log.InfoContext(ctx, "API keys read again")
	}
}

func (k *Keys) read() error {
	info, err := os.Stat(k.path)
	if err != nil {
		return fmt.Errorf("API keys: %w", err)
	}
	data, err := os.ReadFile(k.path)
	if err != nil {
		return fmt.Errorf("API keys: %w", err)
	}
	keys, err := parseKeys(data)
	if err != nil {
		return fmt.Errorf("API keys: %s: %w", k.path, err)
	}
	k.current.Store(&keys)
	k.seen = info // from before reading: a change since then shows the next time
	return nil
}

// parseKeys never repeats a line in an error: somebody may have put the key
// itself there.
func parseKeys(data []byte) ([]apiKey, error) {
	var keys []apiKey
	empty := sha256.Sum256(nil)
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, digest, ok := strings.Cut(line, ":")
		if !ok || !validName(name) {
			return nil, fmt.Errorf("line %d: want name:sha256, the name of letters, digits, '.', '_', '-'", number)
		}
		key := apiKey{name: name}
		if n, err := hex.Decode(key.digest[:], []byte(cut(digest, 2*sha256.Size))); err != nil || n != sha256.Size || len(digest) != 2*sha256.Size {
			return nil, fmt.Errorf("line %d: the digest of a key is 64 hexadecimal digits, as printed by sha256sum", number)
		}
		if key.digest == empty {
			return nil, fmt.Errorf("line %d: this is the digest of an empty key", number)
		}
		keys = append(keys, key)
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("no key")
	}
	return keys, nil
}

// validName is true for words that are harmless in logs and headers.
func validName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("._-", c) < 0 {
			return false
		}
	}
	return true
}

// cut is at most the first n bytes of s.
func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "")
	}
	return s
}
