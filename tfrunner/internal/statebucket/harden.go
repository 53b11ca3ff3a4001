package statebucket

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// What is kept of old states: every apply makes a version, and a version and a
// delete marker for the lock.
const (
	noncurrentDays     = 90
	noncurrentVersions = 10
	incompleteDays     = 7
)

// hardenedTag marks a bucket whose settings have been seen to. It is put on
// last: a bucket without it is somebody else's making, or of a run that died.
const (
	hardenedTag   = "kubeopera.io/state-bucket"
	hardenedValue = "hardened"
)

// harden sets what a bucket with Terraform states needs. It only adds: tags, a
// policy, a life cycle, or an encryption with a key of one's own that somebody has
// set stays. What is changed after it was done once is not changed back.
func (b bucket) harden(ctx context.Context, client *s3.Client, created bool) error {
	tags, err := b.tags(ctx, client)
	if err != nil {
		return b.explain(err, "read the tags of the state bucket "+b.Bucket)
	}
	if tags[hardenedTag] != "" && !created {
		return nil
	}
	steps := []struct {
		what string
		do   func(context.Context, *s3.Client) error
	}{
		{"block public access to", b.blockPublicAccess},
		{"enforce the ownership of objects in", b.enforceOwnership},
		{"set the default encryption of", b.encrypt},
		{"set the life cycle of", b.setLifecycle},
		{"set the policy of", b.setPolicy},
		{"turn on versioning for", b.version},
		{"tag", b.tag},
	}
	for _, s := range steps {
		if err := b.settle(ctx, func() error { return s.do(ctx, client) }); err != nil {
			return b.explain(err, s.what+" the state bucket "+b.Bucket)
		}
	}
	return nil
}

// settle tries again what meets a server that does not know a new bucket yet, or
// one that is busy with the setting before.
func (b bucket) settle(ctx context.Context, do func() error) error {
	return b.retry(ctx, func() (bool, error) {
		err := do()
		c := code(err)
		return c == "NoSuchBucket" || c == "OperationAborted", err
	})
}

func (b bucket) blockPublicAccess(ctx context.Context, client *s3.Client) error {
	_, err := client.PutPublicAccessBlock(ctx, &s3.PutPublicAccessBlockInput{
		Bucket: &b.Bucket, ExpectedBucketOwner: b.owner(),
		PublicAccessBlockConfiguration: &types.PublicAccessBlockConfiguration{
			BlockPublicAcls: aws.Bool(true), BlockPublicPolicy: aws.Bool(true),
			IgnorePublicAcls: aws.Bool(true), RestrictPublicBuckets: aws.Bool(true),
		},
	})
	return err
}

func (b bucket) enforceOwnership(ctx context.Context, client *s3.Client) error {
	_, err := client.PutBucketOwnershipControls(ctx, &s3.PutBucketOwnershipControlsInput{
		Bucket: &b.Bucket, ExpectedBucketOwner: b.owner(),
		OwnershipControls: &types.OwnershipControls{Rules: []types.OwnershipControlsRule{
			{ObjectOwnership: types.ObjectOwnershipBucketOwnerEnforced},
		}},
	})
	return err
}

func (b bucket) encrypt(ctx context.Context, client *s3.Client) error {
	now, err := client.GetBucketEncryption(ctx, &s3.GetBucketEncryptionInput{Bucket: &b.Bucket, ExpectedBucketOwner: b.owner()})
	switch {
	case code(err) == "ServerSideEncryptionConfigurationNotFoundError":
	case err != nil:
		return err
	case now.ServerSideEncryptionConfiguration != nil && len(now.ServerSideEncryptionConfiguration.Rules) > 0:
		return nil // S3's own default, or a stronger one
	}
	_, err = client.PutBucketEncryption(ctx, &s3.PutBucketEncryptionInput{
		Bucket: &b.Bucket, ExpectedBucketOwner: b.owner(),
		ServerSideEncryptionConfiguration: &types.ServerSideEncryptionConfiguration{Rules: []types.ServerSideEncryptionRule{
			{ApplyServerSideEncryptionByDefault: &types.ServerSideEncryptionByDefault{SSEAlgorithm: types.ServerSideEncryptionAes256}},
		}},
	})
	return err
}

// tags reads the bucket's tags.
func (b bucket) tags(ctx context.Context, client *s3.Client) (map[string]string, error) {
	tags := map[string]string{}
	err := b.settle(ctx, func() error {
		out, err := client.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: &b.Bucket, ExpectedBucketOwner: b.owner()})
		if code(err) == "NoSuchTagSet" {
			return nil
		}
		if err != nil {
			return err
		}
		for _, t := range out.TagSet {
			tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		return nil
	})
	return tags, err
}

// tag adds our tags: putting tags replaces all that there are.
func (b bucket) tag(ctx context.Context, client *s3.Client) error {
	there, err := b.tags(ctx, client)
	if err != nil {
		return err
	}
	there[hardenedTag] = hardenedValue
	_, err = client.PutBucketTagging(ctx, &s3.PutBucketTaggingInput{
		Bucket: &b.Bucket, ExpectedBucketOwner: b.owner(),
		Tagging: &types.Tagging{TagSet: b.tagSet(there)},
	})
	return err
}

// tagSet is the tags of a new bucket and, with precedence, others.
func (b bucket) tagSet(others map[string]string) []types.Tag {
	all := maps.Clone(b.Tags)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, others)
	var tags []types.Tag
	for _, key := range slices.Sorted(maps.Keys(all)) {
		tags = append(tags, types.Tag{Key: aws.String(key), Value: aws.String(all[key])})
	}
	return tags
}

func (b bucket) setLifecycle(ctx context.Context, client *s3.Client) error {
	_, err := client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{
		Bucket: &b.Bucket, ExpectedBucketOwner: b.owner(),
	})
	if code(err) != "NoSuchLifecycleConfiguration" {
		return err
	}
	_, err = client.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{
		Bucket: &b.Bucket, ExpectedBucketOwner: b.owner(),
		LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{{
			ID:     aws.String("old-states"),
			Status: types.ExpirationStatusEnabled,
			Filter: &types.LifecycleRuleFilter{Prefix: aws.String("")},
			NoncurrentVersionExpiration: &types.NoncurrentVersionExpiration{
				NoncurrentDays:          aws.Int32(noncurrentDays),
				NewerNoncurrentVersions: aws.Int32(noncurrentVersions),
			},
			Expiration:                     &types.LifecycleExpiration{ExpiredObjectDeleteMarker: aws.Bool(true)},
			AbortIncompleteMultipartUpload: &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: aws.Int32(incompleteDays)},
		}}},
	})
	return err
}

func (b bucket) setPolicy(ctx context.Context, client *s3.Client) error {
	_, err := client.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: &b.Bucket, ExpectedBucketOwner: b.owner()})
	if code(err) != "NoSuchBucketPolicy" {
		return err
	}
	policy, err := tlsOnly(b.Identity.Partition, b.Bucket)
	if err != nil {
		return err
	}
	_, err = client.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{
		Bucket: &b.Bucket, ExpectedBucketOwner: b.owner(), Policy: &policy,
	})
	return err
}

func (b bucket) version(ctx context.Context, client *s3.Client) error {
	_, err := client.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
		Bucket: &b.Bucket, ExpectedBucketOwner: b.owner(),
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	return err
}

// tlsOnly is a bucket policy that denies every request without TLS.
func tlsOnly(partition, bucket string) (string, error) {
	type statement struct {
		Sid       string
		Effect    string
		Principal string
		Action    string
		Resource  []string
		Condition map[string]map[string]string
	}
	name := "arn:" + partition + ":s3:::" + bucket
	policy, err := json.Marshal(struct {
		Version   string
		Statement []statement
	}{
		Version: "2012-10-17",
		Statement: []statement{{
			Sid: "TLSOnly", Effect: "Deny", Principal: "*", Action: "s3:*",
			Resource:  []string{name, name + "/*"},
			Condition: map[string]map[string]string{"Bool": {"aws:SecureTransport": "false"}},
		}},
	})
	if err != nil {
		return "", fmt.Errorf("write the bucket policy: %w", err)
	}
	return string(policy), nil
}
