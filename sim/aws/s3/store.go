package s3

import (
	"crypto/md5" //nolint:gosec // an ETag is an MD5
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/johannesboyne/gofakes3"
)

// store is the memory below gofakes3: buckets with versions of objects. (The
// one that gofakes3 brings lets a new object inherit headers of the old one,
// and fails when the newest of several versions was removed.)
type store struct {
	now func() time.Time

	mu      sync.RWMutex
	buckets map[string]*contents
	lastID  int
}

var _ gofakes3.VersionedBackend = (*store)(nil)

// contents are a bucket's objects; an object's versions are oldest first and
// never empty.
type contents struct {
	created    time.Time
	versioning gofakes3.VersioningStatus
	objects    map[string][]*version
}

// version is one state of an object. It never changes.
type version struct {
	id       gofakes3.VersionID // empty: the null version
	marker   bool               // the object was deleted then
	body     []byte
	hash     []byte
	headers  map[string]string
	modified time.Time
}

func newStore(now func() time.Time) *store {
	return &store{now: now, buckets: map[string]*contents{}}
}

// ListBuckets lists them by name.
func (s *store) ListBuckets() ([]gofakes3.BucketInfo, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []gofakes3.BucketInfo
	for _, name := range slices.Sorted(maps.Keys(s.buckets)) {
		out = append(out, gofakes3.BucketInfo{Name: name, CreationDate: gofakes3.NewContentTime(s.buckets[name].created)})
	}
	return out, nil
}

// CreateBucket adds an empty bucket.
func (s *store) CreateBucket(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets[name] != nil {
		return gofakes3.ResourceError(gofakes3.ErrBucketAlreadyExists, name)
	}
	s.buckets[name] = &contents{created: s.now(), objects: map[string][]*version{}}
	return nil
}

// BucketExists says whether there is such a bucket.
func (s *store) BucketExists(name string) (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.buckets[name] != nil, nil
}

// DeleteBucket removes a bucket without any version of any object.
func (s *store) DeleteBucket(name string) error {
	return s.deleteBucket(name, false)
}

// ForceDeleteBucket removes a bucket with all that is in it.
func (s *store) ForceDeleteBucket(name string) error {
	return s.deleteBucket(name, true)
}

func (s *store) deleteBucket(name string, force bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch b := s.buckets[name]; {
	case b == nil:
		return gofakes3.BucketNotFound(name)
	case !force && len(b.objects) > 0:
		return gofakes3.ResourceError(gofakes3.ErrBucketNotEmpty, name)
	}
	delete(s.buckets, name)
	return nil
}

// find returns a version of an object, the newest when id is empty. The caller
// holds the lock.
func (s *store) find(bucket, key string, id gofakes3.VersionID) (*version, error) {
	b := s.buckets[bucket]
	if b == nil {
		return nil, gofakes3.BucketNotFound(bucket)
	}
	versions := b.objects[key]
	if len(versions) == 0 {
		return nil, gofakes3.KeyNotFound(key)
	}
	if id == "" {
		return versions[len(versions)-1], nil
	}
	for _, v := range versions {
		if v.id == id {
			return v, nil
		}
	}
	return nil, gofakes3.ErrNoSuchVersion
}

// GetObject reads the newest version.
func (s *store) GetObject(bucket, key string, rng *gofakes3.ObjectRangeRequest) (*gofakes3.Object, error) {
	return s.GetObjectVersion(bucket, key, "", rng)
}

// HeadObject reads the newest version's headers.
func (s *store) HeadObject(bucket, key string) (*gofakes3.Object, error) {
	return s.GetObjectVersion(bucket, key, "", nil)
}

// HeadObjectVersion reads one version's headers.
func (s *store) HeadObjectVersion(bucket, key string, id gofakes3.VersionID) (*gofakes3.Object, error) {
	return s.GetObjectVersion(bucket, key, id, nil)
}

// GetObjectVersion reads one version. For a delete marker gofakes3 makes the
// error, with its headers.
func (s *store) GetObjectVersion(bucket, key string, id gofakes3.VersionID, rng *gofakes3.ObjectRangeRequest) (*gofakes3.Object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, err := s.find(bucket, key, id)
	if err != nil {
		return nil, err
	}
	obj := &gofakes3.Object{
		Name: key, Metadata: maps.Clone(v.headers), Size: int64(len(v.body)), Hash: v.hash,
		IsDeleteMarker: v.marker, VersionID: s.buckets[bucket].show(v),
	}
	body := v.body
	if !v.marker {
		if obj.Range, err = rng.Range(obj.Size); err != nil {
			return nil, err
		}
		if obj.Range != nil {
			body = body[obj.Range.Start : obj.Range.Start+obj.Range.Length]
		}
	}
	obj.Contents = io.NopCloser(strings.NewReader(string(body)))
	return obj, nil
}

// show is how a version's id is given to clients.
func (b *contents) show(v *version) gofakes3.VersionID {
	if v.id == "" && b.versioning != gofakes3.VersioningNone {
		return "null"
	}
	return v.id
}

// PutObject stores an object. Preconditions have been checked by the service,
// which holds the key's lock; gofakes3's are checked here once more.
func (s *store) PutObject(bucket, key string, headers map[string]string, input io.Reader, size int64, cond *gofakes3.PutConditions) (gofakes3.PutObjectResult, error) {
	var result gofakes3.PutObjectResult
	body, err := gofakes3.ReadAll(input, size)
	if err != nil {
		return result, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[bucket]
	if b == nil {
		return result, gofakes3.BucketNotFound(bucket)
	}
	if cond != nil {
		info := &gofakes3.ConditionalObjectInfo{}
		if old, err := s.find(bucket, key, ""); err == nil && !old.marker {
			info.Exists, info.Hash = true, old.hash
		}
		if err := gofakes3.CheckPutConditions(cond, info); err != nil {
			return result, err
		}
	}
	headers = maps.Clone(headers)
	maps.DeleteFunc(headers, func(name, _ string) bool { return !keptHeader(name) })
	sum := md5.Sum(body) //nolint:gosec // an ETag is an MD5
	v := &version{body: body, hash: sum[:], headers: headers, modified: s.now()}
	s.add(b, key, v)
	if b.versioning == gofakes3.VersioningEnabled {
		result.VersionID = v.id
	}
	return result, nil
}

// add makes v the newest version. Without versioning it takes the place of the
// null version. The caller holds the lock.
func (s *store) add(b *contents, key string, v *version) {
	if b.versioning == gofakes3.VersioningEnabled {
		s.lastID++
		v.id = gofakes3.VersionID(fmt.Sprintf("%032d", s.lastID))
	} else {
		b.remove(key, "")
	}
	b.objects[key] = append(b.objects[key], v)
}

func (b *contents) remove(key string, id gofakes3.VersionID) (removed *version) {
	versions := slices.DeleteFunc(slices.Clone(b.objects[key]), func(v *version) bool {
		if v.id == id {
			removed = v
		}
		return v.id == id
	})
	if len(versions) == 0 {
		delete(b.objects, key)
	} else {
		b.objects[key] = versions
	}
	return removed
}

// keptHeader says whether a request's header becomes part of the object.
func keptHeader(name string) bool {
	switch name {
	case "Content-Type", "Content-Disposition", "Content-Encoding", "Last-Modified", "X-Amz-Storage-Class",
		"X-Amz-Website-Redirect-Location":
		return true
	}
	for _, prefix := range []string{"X-Amz-Meta-", encryptionHeader, checksumPrefix} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// CopyObject copies the newest version; gofakes3 has merged the headers.
func (s *store) CopyObject(srcBucket, srcKey, dstBucket, dstKey string, headers map[string]string) (gofakes3.CopyObjectResult, error) {
	return gofakes3.CopyObject(s, srcBucket, srcKey, dstBucket, dstKey, headers)
}

// DeleteObject deletes an object, or adds a delete marker where versions are kept.
func (s *store) DeleteObject(bucket, key string) (gofakes3.ObjectDeleteResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[bucket]
	if b == nil {
		return gofakes3.ObjectDeleteResult{}, gofakes3.BucketNotFound(bucket)
	}
	if b.versioning == gofakes3.VersioningNone {
		b.remove(key, "")
		return gofakes3.ObjectDeleteResult{}, nil
	}
	v := &version{marker: true, modified: s.now()}
	s.add(b, key, v)
	return gofakes3.ObjectDeleteResult{IsDeleteMarker: true, VersionID: b.show(v)}, nil
}

// DeleteObjectVersion removes one version for good.
func (s *store) DeleteObjectVersion(bucket, key string, id gofakes3.VersionID) (gofakes3.ObjectDeleteResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[bucket]
	if b == nil {
		return gofakes3.ObjectDeleteResult{}, gofakes3.BucketNotFound(bucket)
	}
	if id == "null" {
		id = ""
	}
	removed := b.remove(key, id)
	if removed == nil {
		return gofakes3.ObjectDeleteResult{}, nil // S3 does not mind
	}
	return gofakes3.ObjectDeleteResult{IsDeleteMarker: removed.marker, VersionID: b.show(removed)}, nil
}

// DeleteMulti deletes several objects.
func (s *store) DeleteMulti(bucket string, keys ...string) (gofakes3.MultiDeleteResult, error) {
	ids := make([]gofakes3.ObjectID, 0, len(keys))
	for _, key := range keys {
		ids = append(ids, gofakes3.ObjectID{Key: key})
	}
	return s.DeleteMultiVersions(bucket, ids...)
}

// DeleteMultiVersions deletes several objects or versions.
func (s *store) DeleteMultiVersions(bucket string, ids ...gofakes3.ObjectID) (gofakes3.MultiDeleteResult, error) {
	var out gofakes3.MultiDeleteResult
	for _, id := range ids {
		var err error
		if id.VersionID == "" {
			_, err = s.DeleteObject(bucket, id.Key)
		} else {
			_, err = s.DeleteObjectVersion(bucket, id.Key, gofakes3.VersionID(id.VersionID))
		}
		if err != nil {
			return out, err
		}
		out.Deleted = append(out.Deleted, id)
	}
	return out, nil
}

// VersioningConfiguration tells whether versions are kept.
func (s *store) VersioningConfiguration(bucket string) (gofakes3.VersioningConfiguration, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b := s.buckets[bucket]
	if b == nil {
		return gofakes3.VersioningConfiguration{}, gofakes3.BucketNotFound(bucket)
	}
	return gofakes3.VersioningConfiguration{Status: b.versioning}, nil
}

// SetVersioningConfiguration lets versions be kept, or no more.
func (s *store) SetVersioningConfiguration(bucket string, cfg gofakes3.VersioningConfiguration) error {
	if cfg.MFADelete.Enabled() {
		return gofakes3.ErrNotImplemented
	}
	if cfg.Status == gofakes3.VersioningNone {
		return gofakes3.ErrIllegalVersioningConfiguration
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[bucket]
	if b == nil {
		return gofakes3.BucketNotFound(bucket)
	}
	b.versioning = cfg.Status
	return nil
}

// etag gives the newest version's ETag without quotes.
func (s *store) etag(bucket, key string) (string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, err := s.find(bucket, key, "")
	if err != nil {
		return "", err
	}
	if v.marker {
		return "", errDeleted
	}
	return hex.EncodeToString(v.hash), nil
}

var errDeleted = errors.New("object is deleted")
