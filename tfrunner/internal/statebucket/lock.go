package statebucket

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/kubeopera/platform/shared/api"
)

// lockSuffix is what Terraform's S3 backend appends to the state's key.
const lockSuffix = ".tflock"

// LockKey is where the lock of the state at key is.
func LockKey(key string) string { return key + lockSuffix }

// Lock is the lock on a state, as it was when it was read.
type Lock struct {
	api.StateLock

	etag string
}

// ParseLock reads the lock object that Terraform writes. One that cannot be
// understood is a lock all the same: Terraform does not touch it either.
func ParseLock(data []byte) api.StateLock {
	var in struct {
		ID      string
		Who     string // user@host
		Created time.Time
	}
	if err := json.Unmarshal(data, &in); err != nil || len(in.ID) > maxLockText || len(in.Who) > maxLockText {
		return api.StateLock{}
	}
	lock := api.StateLock{ID: in.ID, Who: in.Who, Created: in.Created.UTC()}
	if year := lock.Created.Year(); year < 0 || year > 9999 { // as UTC, in which JSON cannot write it any more
		lock.Created = time.Time{}
	}
	return lock
}

// maxLockText bounds what of a lock is told to others, in bytes: a run's result
// has to fit into a Secret, and Terraform's locks are far below it.
const maxLockText = 1024

// Host is where the lock was taken: the pod, if a run took it.
func Host(l api.StateLock) string { return l.Who[strings.LastIndex(l.Who, "@")+1:] }

// Lock reads the lock; nil if the state is not locked.
func (o *Objects) Lock(ctx context.Context) (*Lock, error) {
	data, etag, found, err := o.read(ctx, LockKey(o.key))
	if err != nil || !found {
		return nil, err
	}
	return &Lock{StateLock: ParseLock(data), etag: etag}, nil
}

// Unlock removes a lock that Lock has read; removed is false if it has been
// replaced by another one since, which then stays.
func (o *Objects) Unlock(ctx context.Context, l Lock) (removed bool, err error) {
	key := LockKey(o.key)
	err = o.retry(ctx, func() (again bool, err error) {
		_, err = o.client.DeleteObject(ctx, &s3.DeleteObjectInput{
			Bucket: &o.Bucket, Key: &key, ExpectedBucketOwner: o.owner(), IfMatch: &l.etag,
		})
		return code(err) == "ConditionalRequestConflict", err
	})
	switch {
	case err == nil, status(err) == http.StatusNotFound:
		return true, nil // a deletion whose answer was lost looks like this as well
	case status(err) == http.StatusPreconditionFailed:
		return false, nil
	case status(err) == http.StatusNotImplemented:
		return false, fmt.Errorf("remove %s: this S3 cannot delete on a condition: %w", o.name(key), err)
	}
	return false, o.explain(err, "remove "+o.name(key))
}
