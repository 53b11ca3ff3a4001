// Package statebucket makes sure that the bucket of an environment's Terraform
// state exists, belongs to the account of the run's credential, and is safe to
// keep a state in. Objects is what is in it beside the state: its lock, and states
// that could not be saved.
//
// Bucket names are global, so a bucket that is there may be somebody else's:
// every call names the owner that it expects. A bucket may also lie in another
// region than the run's; its real region is what the caller gets.
package statebucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/kubeopera/platform/shared/runner/awsconfig"
)

// regionWithoutName is the one region that must not be named when a bucket is created.
const regionWithoutName = "us-east-1"

// Config is what Ensure needs to know.
type Config struct {
	AWS       aws.Config // its region is where a new bucket goes
	PathStyle bool       // for emulators, which have no names for buckets
	Identity  awsconfig.Identity
	Bucket    string
	Tags      map[string]string // for a new bucket
	// Poll is the first pause between attempts; zero means one second.
	Poll time.Duration
	// Patience bounds each wait for S3; zero means two minutes.
	Patience time.Duration
}

// Bucket is a bucket that exists.
type Bucket struct {
	Region  string
	Created bool // by this call
	// Unhardened says why the settings of a bucket that was there before are not
	// known to be safe; empty if they are.
	Unhardened string
}

// Find looks for the bucket and creates nothing; found is false if there is none.
func Find(ctx context.Context, cfg Config) (b Bucket, found bool, err error) {
	f, err := bucket{cfg.withDefaults()}.find(ctx)
	return Bucket{Region: f.region}, f.exists, err
}

// Ensure finds the bucket or creates and hardens it. Two runs may do so at the
// same time. Refused credentials give an *awsconfig.RefusedError.
func Ensure(ctx context.Context, cfg Config) (Bucket, error) {
	b := bucket{cfg.withDefaults()}
	found, err := b.find(ctx)
	if err != nil {
		return Bucket{}, err
	}
	result := Bucket{Region: found.region}
	if !found.exists {
		if err := b.create(ctx); err != nil {
			return Bucket{}, err
		}
		if result.Region, err = b.await(ctx); err != nil {
			return Bucket{}, err
		}
		result.Created = true
	}
	err = b.harden(ctx, b.client(result.Region), result.Created)
	switch {
	case err == nil || ctx.Err() != nil:
		return result, err
	case result.Created:
		return Bucket{}, err
	}
	// A credential that may use a bucket, but not see to its settings, is a good one.
	result.Unhardened = err.Error()
	return result, nil
}

func (cfg Config) withDefaults() Config {
	if cfg.Poll == 0 {
		cfg.Poll = time.Second
	}
	if cfg.Patience == 0 {
		cfg.Patience = 2 * time.Minute
	}
	return cfg
}

type bucket struct{ Config }

func (b bucket) client(region string) *s3.Client {
	return s3.NewFromConfig(b.AWS, func(o *s3.Options) {
		o.Region = region
		o.UsePathStyle = b.PathStyle
	})
}

// owner is the account that the bucket must belong to.
func (b bucket) owner() *string { return aws.String(b.Identity.Account) }

type finding struct {
	exists bool
	region string
}

// find looks for the bucket in the run's region, and where S3 says that it is.
func (b bucket) find(ctx context.Context) (finding, error) {
	found, elsewhere, err := b.findIn(ctx, b.AWS.Region)
	if elsewhere != "" {
		found, _, err = b.findIn(ctx, elsewhere)
	}
	return found, err
}

// findIn looks for the bucket in one region; elsewhere is the region that S3
// sends us to with the error.
func (b bucket) findIn(ctx context.Context, region string) (found finding, elsewhere string, err error) {
	out, err := b.client(region).HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.Bucket, ExpectedBucketOwner: b.owner()})
	if err == nil {
		if out.BucketRegion != nil && *out.BucketRegion != "" {
			region = *out.BucketRegion
		}
		return finding{exists: true, region: region}, "", nil
	}
	// A HEAD has no body, hence no error code: the status must do.
	response, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok {
		return finding{}, "", fmt.Errorf("look for the state bucket %s: %w", b.Bucket, err)
	}
	there := response.Response.Header.Get("X-Amz-Bucket-Region")
	if there == region {
		there = "" // that is where we have asked
	}
	switch status := response.HTTPStatusCode(); {
	case status == http.StatusNotFound:
		return finding{}, "", nil
	case status == http.StatusForbidden && there != "": // only its own region can tell
		return finding{}, there, fmt.Errorf("look for the state bucket %s: %w", b.Bucket, err)
	case (status == http.StatusMovedPermanently || status == http.StatusBadRequest) && there != "":
		return finding{}, there, fmt.Errorf("look for the state bucket %s: S3 says that it is in %s: %w", b.Bucket, there, err)
	case status == http.StatusForbidden:
		return finding{}, "", fmt.Errorf("the state bucket %s exists, but belongs to another account, or the credential lacks s3:ListBucket on it", b.Bucket)
	}
	return finding{}, "", fmt.Errorf("look for the state bucket %s: %w", b.Bucket, err)
}

// create asks for the bucket; that it exists already and is ours is success.
func (b bucket) create(ctx context.Context) error {
	client := b.client(b.AWS.Region)
	tags := b.tagSet(nil)
	return b.retry(ctx, func() (again bool, err error) {
		_, err = client.CreateBucket(ctx, b.creation(tags))
		if len(tags) > 0 && tagsRefused(err) {
			tags = nil // they are put on it with the other settings in any case
			_, err = client.CreateBucket(ctx, b.creation(tags))
		}
		switch code(err) {
		case "":
			return false, wrap(err, "create the state bucket "+b.Bucket)
		case "BucketAlreadyOwnedByYou":
			return false, nil
		case "BucketAlreadyExists":
			return false, fmt.Errorf("the name of the state bucket %s is taken by another AWS account: choose another environment name", b.Bucket)
		case "OperationAborted":
			return true, fmt.Errorf("S3 is still busy with another operation on the bucket name %s, such as its deletion; that may take an hour: retry later", b.Bucket)
		}
		return false, b.explain(err, "create the state bucket "+b.Bucket)
	})
}

func (b bucket) creation(tags []types.Tag) *s3.CreateBucketInput {
	in := &s3.CreateBucketInput{Bucket: &b.Bucket, ObjectOwnership: types.ObjectOwnershipBucketOwnerEnforced}
	conf := types.CreateBucketConfiguration{Tags: tags}
	if b.AWS.Region != regionWithoutName {
		// The SDK's list of regions lags behind AWS's: any name will do.
		conf.LocationConstraint = types.BucketLocationConstraint(b.AWS.Region)
	}
	if len(conf.Tags) > 0 || conf.LocationConstraint != "" { // an empty one is malformed
		in.CreateBucketConfiguration = &conf
	}
	return in
}

// tagsRefused tells whether a creation may have failed for its tags: they need
// a right of their own (s3:TagResource), and not every S3 takes them.
func tagsRefused(err error) bool {
	switch code(err) {
	case "AccessDenied", "MalformedXML", "NotImplemented", "InvalidRequest":
		return true
	}
	return false
}

// await waits until S3 knows the bucket everywhere, for Terraform's calls too,
// and gives its region.
func (b bucket) await(ctx context.Context) (region string, err error) {
	err = b.retry(ctx, func() (bool, error) {
		found, err := b.find(ctx)
		if err != nil {
			return false, err
		}
		region = found.region
		if !found.exists {
			return true, fmt.Errorf("the state bucket %s was created, but S3 does not show it", b.Bucket)
		}
		_, err = b.client(region).ListObjectsV2(ctx, &s3.ListObjectsV2Input{
			Bucket: &b.Bucket, ExpectedBucketOwner: b.owner(), MaxKeys: aws.Int32(1),
		})
		if code(err) == "NoSuchBucket" {
			return true, fmt.Errorf("the state bucket %s was created, but S3 does not list it: %w", b.Bucket, err)
		}
		return false, b.explain(err, "list the state bucket "+b.Bucket)
	})
	return region, err
}

// maxPoll bounds the growing pause between attempts.
const maxPoll = 15 * time.Second

// retry calls try until it does not want to be called again or patience ends.
func (b bucket) retry(ctx context.Context, try func() (again bool, err error)) error {
	deadline := time.Now().Add(b.Patience)
	for pause := b.Poll; ; pause = min(2*pause, maxPoll) {
		again, err := try()
		if !again || time.Now().Add(pause).After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// explain words an answer of S3's: a refused credential, a missing right.
func (b bucket) explain(err error, doing string) error {
	if err == nil {
		return nil
	}
	if refused := awsconfig.Refusal(err); refused != nil {
		return fmt.Errorf("%s: %w", doing, refused)
	}
	return wrap(err, doing)
}

func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// code is AWS's error code; empty if there is none.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}
