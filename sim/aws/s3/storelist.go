package s3

import (
	"maps"
	"slices"

	"github.com/johannesboyne/gofakes3"
)

// ListBucket lists a page of objects and common prefixes by key.
func (s *store) ListBucket(name string, prefix *gofakes3.Prefix, page gofakes3.ListBucketPage) (*gofakes3.ObjectList, error) {
	if prefix == nil {
		prefix = &gofakes3.Prefix{}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	b := s.buckets[name]
	if b == nil {
		return nil, gofakes3.BucketNotFound(name)
	}
	list := gofakes3.NewObjectList()
	var last string // what was listed last: the next page's marker
	count := int64(0)
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		newest := b.objects[key][len(b.objects[key])-1]
		var match gofakes3.PrefixMatch
		if newest.marker || !prefix.Match(key, &match) {
			continue
		}
		entry := key
		if match.CommonPrefix {
			entry = match.MatchedPart
		}
		// All keys of one common prefix are one entry, which may have been on the page before.
		if entry == last || page.HasMarker && entry <= page.Marker {
			continue
		}
		if page.MaxKeys > 0 && count == page.MaxKeys {
			list.IsTruncated, list.NextMarker = true, last
			break
		}
		count++
		last = entry
		if match.CommonPrefix {
			list.AddPrefix(entry)
			continue
		}
		list.Add(&gofakes3.Content{
			Key: key, LastModified: gofakes3.NewContentTime(newest.modified), ETag: gofakes3.FormatETag(newest.hash),
			Size: int64(len(newest.body)), StorageClass: gofakes3.StorageStandard,
		})
	}
	return list, nil
}

// ListBucketVersions lists a page of versions by key, newest first.
func (s *store) ListBucketVersions(name string, prefix *gofakes3.Prefix, page *gofakes3.ListBucketVersionsPage) (*gofakes3.ListBucketVersionsResult, error) {
	if prefix == nil {
		prefix = &gofakes3.Prefix{}
	}
	if page == nil {
		page = &gofakes3.ListBucketVersionsPage{}
	}
	result := gofakes3.NewListBucketVersionsResult(name, prefix, page)
	s.mu.RLock()
	defer s.mu.RUnlock()
	b := s.buckets[name]
	if b == nil {
		return result, gofakes3.BucketNotFound(name)
	}
	count := int64(0)
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		var match gofakes3.PrefixMatch
		if page.HasKeyMarker && key < page.KeyMarker || !prefix.Match(key, &match) {
			continue
		}
		if match.CommonPrefix {
			result.AddPrefix(match.MatchedPart)
			continue
		}
		versions := slices.Clone(b.objects[key])
		slices.Reverse(versions)
		if page.HasKeyMarker && key == page.KeyMarker {
			versions = after(versions, page.VersionIDMarker)
		}
		for _, v := range versions {
			if page.MaxKeys > 0 && count == page.MaxKeys {
				result.IsTruncated = true
				return result, nil
			}
			count++
			latest := v == b.objects[key][len(b.objects[key])-1]
			result.Versions = append(result.Versions, b.item(key, v, latest))
			result.NextKeyMarker, result.NextVersionIDMarker = key, markerID(v)
		}
	}
	result.NextKeyMarker, result.NextVersionIDMarker = "", ""
	return result, nil
}

// after drops the versions up to and with the one of the marker; an empty
// marker drops all: that key was done.
func after(versions []*version, marker gofakes3.VersionID) []*version {
	for i, v := range versions {
		if markerID(v) == marker {
			return versions[i+1:]
		}
	}
	return nil
}

func markerID(v *version) gofakes3.VersionID {
	if v.id == "" {
		return "null"
	}
	return v.id
}

func (b *contents) item(key string, v *version, latest bool) gofakes3.VersionItem {
	modified := gofakes3.NewContentTime(v.modified)
	if v.marker {
		return &gofakes3.DeleteMarker{Key: key, VersionID: markerID(v), IsLatest: latest, LastModified: modified}
	}
	return &gofakes3.Version{
		Key: key, VersionID: markerID(v), IsLatest: latest, LastModified: modified,
		Size: int64(len(v.body)), ETag: gofakes3.FormatETag(v.hash), StorageClass: gofakes3.StorageStandard,
	}
}
