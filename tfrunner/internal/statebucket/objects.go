package statebucket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Objects are the objects in the bucket that have to do with one state: the
// state itself, its lock, and states that could not be saved in its place.
type Objects struct {
	bucket

	client *s3.Client
	key    string // of the state
	kmsKey string
}

// Objects gives access to the objects of the state at key, in a bucket that Find
// or Ensure has found. kmsKey is the KMS key that the backend encrypts with;
// empty: S3's own.
func (cfg Config) Objects(found Bucket, key, kmsKey string) *Objects {
	b := bucket{cfg.withDefaults()}
	return &Objects{bucket: b, client: b.client(found.Region), key: key, kmsKey: kmsKey}
}

// maxObject bounds what is read into memory; states of this platform have some
// hundred kilobytes.
const maxObject = 64 << 20

// read reads an object; found is false if there is none.
func (o *Objects) read(ctx context.Context, key string) (data []byte, etag string, found bool, err error) {
	out, err := o.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &o.Bucket, Key: &key, ExpectedBucketOwner: o.owner()})
	if code(err) == "NoSuchKey" || status(err) == http.StatusNotFound {
		return nil, "", false, nil
	}
	if err != nil {
		return nil, "", false, o.explain(err, "read "+o.name(key))
	}
	data, err = io.ReadAll(io.LimitReader(out.Body, maxObject+1))
	err = errors.Join(err, out.Body.Close())
	switch {
	case err != nil:
		return nil, "", false, fmt.Errorf("read %s: %w", o.name(key), err)
	case len(data) > maxObject:
		return nil, "", false, fmt.Errorf("read %s: it has more than %d bytes", o.name(key), maxObject)
	}
	return data, aws.ToString(out.ETag), true, nil
}

// write writes an object the way Terraform's backend does.
func (o *Objects) write(ctx context.Context, key string, data []byte) error {
	in := &s3.PutObjectInput{
		Bucket: &o.Bucket, Key: &key, ExpectedBucketOwner: o.owner(),
		Body: bytes.NewReader(data), ContentType: aws.String("application/json"),
		ServerSideEncryption: types.ServerSideEncryptionAes256,
	}
	if o.kmsKey != "" {
		in.ServerSideEncryption, in.SSEKMSKeyId = types.ServerSideEncryptionAwsKms, &o.kmsKey
	}
	if _, err := o.client.PutObject(ctx, in); err != nil {
		return o.explain(err, "write "+o.name(key))
	}
	return nil
}

func (o *Objects) name(key string) string { return key + " in the bucket " + o.Bucket }

// Version tells states of one environment apart.
type Version struct {
	// Lineage is that of all states which came of one another. A first state has
	// none if Terraform could not ask S3 whether it is the first; pushing gives it one.
	Lineage string `json:"lineage"`
	Serial  uint64 `json:"serial"` // grows with every change
}

// ReadVersion reads a state's version.
func ReadVersion(state []byte) (Version, error) {
	var v struct {
		Version

		Format int `json:"version"`
	}
	if err := json.Unmarshal(state, &v); err != nil {
		return Version{}, fmt.Errorf("read a Terraform state: %w", err)
	}
	if v.Format == 0 {
		return Version{}, errors.New("read a Terraform state: it is none")
	}
	return v.Version, nil
}

// Version is the saved state's version; found is false if no state was saved yet.
func (o *Objects) Version(ctx context.Context) (v Version, found bool, err error) {
	data, _, found, err := o.read(ctx, o.key)
	if err != nil || !found {
		return Version{}, false, err
	}
	v, err = ReadVersion(data)
	return v, true, err
}

// Where states are kept that could not be saved, by the run that left them, and
// those of them that are of no use any more.
const (
	rescueFolder     = "rescue/"
	supersededFolder = rescueFolder + "superseded/"
	stateSuffix      = ".tfstate"
)

// RescueKey is where the state is kept that a run could not save.
func RescueKey(runID string) string { return rescueFolder + runID + stateSuffix }

// Rescued lists the runs whose states are kept because they could not be saved.
func (o *Objects) Rescued(ctx context.Context) (runIDs []string, err error) {
	pages := s3.NewListObjectsV2Paginator(o.client, &s3.ListObjectsV2Input{
		Bucket: &o.Bucket, ExpectedBucketOwner: o.owner(),
		Prefix: aws.String(rescueFolder), Delimiter: aws.String("/"),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, o.explain(err, "look for rescued states in the bucket "+o.Bucket)
		}
		for _, object := range page.Contents {
			if id, ok := strings.CutSuffix(path.Base(aws.ToString(object.Key)), stateSuffix); ok {
				runIDs = append(runIDs, id)
			}
		}
	}
	return runIDs, nil
}

// Rescue keeps a state that a run could not save.
func (o *Objects) Rescue(ctx context.Context, runID string, state []byte) error {
	return o.write(ctx, RescueKey(runID), state)
}

// ReadRescued reads what Rescue kept.
func (o *Objects) ReadRescued(ctx context.Context, runID string) ([]byte, error) {
	data, _, found, err := o.read(ctx, RescueKey(runID))
	if err == nil && !found {
		err = fmt.Errorf("read %s: it is gone", o.name(RescueKey(runID)))
	}
	return data, err
}

// DropRescued removes what Rescue kept.
func (o *Objects) DropRescued(ctx context.Context, runID string) error {
	key := RescueKey(runID)
	if _, err := o.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &o.Bucket, Key: &key, ExpectedBucketOwner: o.owner()}); err != nil {
		return o.explain(err, "remove "+o.name(key))
	}
	return nil
}

// SetAside moves what Rescue kept to where it is not taken up any more.
func (o *Objects) SetAside(ctx context.Context, runID string, state []byte) error {
	if err := o.write(ctx, supersededFolder+runID+stateSuffix, state); err != nil {
		return err
	}
	return o.DropRescued(ctx, runID)
}

// status is the HTTP status of an error; 0 if there was no answer.
func status(err error) int {
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return response.HTTPStatusCode()
	}
	return 0
}
