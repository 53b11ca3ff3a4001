package s3

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Bucket describes a bucket to a test.
type Bucket struct {
	Name       string
	Region     string
	Owner      string
	Versioning string            // "", "Enabled" or "Suspended"
	Settings   map[string]string // documents that were put, by query word: "encryption", "policy", …
}

// Bucket returns a bucket of any account, and whether it exists.
func (s *Service) Bucket(name string) (Bucket, bool) {
	s.mu.RLock()
	b := s.buckets[name]
	s.mu.RUnlock()
	if b == nil {
		return Bucket{}, false
	}
	out := Bucket{Name: b.name, Region: b.region, Owner: b.owner, Settings: map[string]string{}}
	b.mu.RLock()
	for query, body := range b.settings {
		out.Settings[query] = string(body)
	}
	b.mu.RUnlock()
	if cfg, err := s.objects.VersioningConfiguration(name); err == nil {
		out.Versioning = string(cfg.Status)
	}
	return out, true
}

// Buckets lists the names of all buckets, other accounts' among them.
func (s *Service) Buckets() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.buckets))
}

// SeedBucket makes a bucket that an account already has. With an account that
// is not the simulated one, its name is taken and it cannot be used.
func (s *Service) SeedBucket(name, region, owner string) error {
	return s.insert(&bucket{name: name, region: region, owner: owner, settings: map[string][]byte{}})
}

// ErrNotFound says that there is no such bucket or object.
var ErrNotFound = errors.New("no such bucket or object")

// Object returns an object's newest version.
func (s *Service) Object(bucket, key string) ([]byte, error) {
	obj, err := s.objects.GetObject(bucket, key, nil)
	if err != nil || obj.IsDeleteMarker {
		return nil, fmt.Errorf("object %s/%s: %w", bucket, key, ErrNotFound)
	}
	body, err := io.ReadAll(obj.Contents)
	if err != nil {
		return nil, fmt.Errorf("object %s/%s: %w", bucket, key, err)
	}
	return body, nil
}

// Keys lists a bucket's objects by key.
func (s *Service) Keys(bucket, prefix string) ([]string, error) {
	s.objects.mu.RLock()
	defer s.objects.mu.RUnlock()
	b := s.objects.buckets[bucket]
	if b == nil {
		return nil, fmt.Errorf("keys of %s: %w", bucket, ErrNotFound)
	}
	var keys []string
	for key, versions := range b.objects {
		if strings.HasPrefix(key, prefix) && !versions[len(versions)-1].marker {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// PutObject stores an object, as a leftover of somebody else for instance.
func (s *Service) PutObject(bucket, key string, body []byte) error {
	defer s.writes.lock(bucket + "/" + key)()
	if _, err := s.objects.PutObject(bucket, key, nil, strings.NewReader(string(body)), int64(len(body)), nil); err != nil {
		return fmt.Errorf("put object %s/%s: %w", bucket, key, err)
	}
	return nil
}
