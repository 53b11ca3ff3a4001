package s3_test

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// hardened is what a careful creator of a state bucket sets, and reads back.
func TestHardeningIsGivenBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "state")
	c, ctx, bucket := f.in(frankfurt), t.Context(), new("state")
	steps := []struct {
		name string
		put  func() error
		get  func() (any, error)
		want any
	}{
		{
			name: "versioning",
			put: func() error {
				_, err := c.PutBucketVersioning(ctx, &sdk.PutBucketVersioningInput{Bucket: bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
				return err
			},
			get: func() (any, error) {
				out, err := c.GetBucketVersioning(ctx, &sdk.GetBucketVersioningInput{Bucket: bucket})
				return out.Status, err
			},
			want: types.BucketVersioningStatusEnabled,
		},
		{
			name: "encryption",
			put: func() error {
				_, err := c.PutBucketEncryption(ctx, &sdk.PutBucketEncryptionInput{Bucket: bucket, ServerSideEncryptionConfiguration: &types.ServerSideEncryptionConfiguration{
					Rules: []types.ServerSideEncryptionRule{{ApplyServerSideEncryptionByDefault: &types.ServerSideEncryptionByDefault{SSEAlgorithm: types.ServerSideEncryptionAwsKms}, BucketKeyEnabled: new(true)}},
				}})
				return err
			},
			get: func() (any, error) {
				out, err := c.GetBucketEncryption(ctx, &sdk.GetBucketEncryptionInput{Bucket: bucket})
				return out.ServerSideEncryptionConfiguration.Rules[0].ApplyServerSideEncryptionByDefault.SSEAlgorithm, err
			},
			want: types.ServerSideEncryptionAwsKms,
		},
		{
			name: "public access block",
			put: func() error {
				_, err := c.PutPublicAccessBlock(ctx, &sdk.PutPublicAccessBlockInput{Bucket: bucket, PublicAccessBlockConfiguration: &types.PublicAccessBlockConfiguration{
					BlockPublicAcls: new(true), BlockPublicPolicy: new(true), IgnorePublicAcls: new(true), RestrictPublicBuckets: new(false),
				}})
				return err
			},
			get: func() (any, error) {
				out, err := c.GetPublicAccessBlock(ctx, &sdk.GetPublicAccessBlockInput{Bucket: bucket})
				return *out.PublicAccessBlockConfiguration.RestrictPublicBuckets, err
			},
			want: false,
		},
		{
			name: "ownership",
			put: func() error {
				_, err := c.PutBucketOwnershipControls(ctx, &sdk.PutBucketOwnershipControlsInput{Bucket: bucket, OwnershipControls: &types.OwnershipControls{
					Rules: []types.OwnershipControlsRule{{ObjectOwnership: types.ObjectOwnershipBucketOwnerPreferred}},
				}})
				return err
			},
			get: func() (any, error) {
				out, err := c.GetBucketOwnershipControls(ctx, &sdk.GetBucketOwnershipControlsInput{Bucket: bucket})
				return out.OwnershipControls.Rules[0].ObjectOwnership, err
			},
			want: types.ObjectOwnershipBucketOwnerPreferred,
		},
		{
			name: "policy",
			put: func() error {
				_, err := c.PutBucketPolicy(ctx, &sdk.PutBucketPolicyInput{Bucket: bucket, Policy: new(policy)})
				return err
			},
			get: func() (any, error) {
				out, err := c.GetBucketPolicy(ctx, &sdk.GetBucketPolicyInput{Bucket: bucket})
				return *out.Policy, err
			},
			want: policy,
		},
		{
			name: "lifecycle",
			put: func() error {
				_, err := c.PutBucketLifecycleConfiguration(ctx, &sdk.PutBucketLifecycleConfigurationInput{Bucket: bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{
					Rules: []types.LifecycleRule{{
						ID: new("old"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: new("")},
						NoncurrentVersionExpiration:    &types.NoncurrentVersionExpiration{NoncurrentDays: new(int32(90)), NewerNoncurrentVersions: new(int32(10))},
						Expiration:                     &types.LifecycleExpiration{ExpiredObjectDeleteMarker: new(true)},
						AbortIncompleteMultipartUpload: &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: new(int32(7))},
					}},
				}})
				return err
			},
			get: func() (any, error) {
				out, err := c.GetBucketLifecycleConfiguration(ctx, &sdk.GetBucketLifecycleConfigurationInput{Bucket: bucket})
				return *out.Rules[0].NoncurrentVersionExpiration.NewerNoncurrentVersions, err
			},
			want: int32(10),
		},
		{
			name: "tags",
			put: func() error {
				_, err := c.PutBucketTagging(ctx, &sdk.PutBucketTaggingInput{Bucket: bucket, Tagging: &types.Tagging{TagSet: []types.Tag{{Key: new("a"), Value: new("b")}}}})
				return err
			},
			get: func() (any, error) {
				out, err := c.GetBucketTagging(ctx, &sdk.GetBucketTaggingInput{Bucket: bucket})
				return out.TagSet, err
			},
			want: []types.Tag{{Key: new("a"), Value: new("b")}},
		},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			if err := s.put(); err != nil {
				t.Fatal(err)
			}
			got, err := s.get()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.want, got, cmpopts.IgnoreUnexported(types.Tag{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	// Objects take the bucket's default encryption.
	out, err := c.PutObject(ctx, &sdk.PutObjectInput{Bucket: bucket, Key: new("k")})
	if err != nil || out.ServerSideEncryption != types.ServerSideEncryptionAwsKms {
		t.Errorf("object: %v, %v", out, err)
	}
	b, _ := f.service.Bucket("state")
	if b.Versioning != "Enabled" || b.Settings["policy"] != policy {
		t.Errorf("inspection: %+v", b)
	}
}

const policy = `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::state","arn:aws:s3:::state/*"],"Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}`

func TestSettingsOfANewBucket(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "fresh")
	c, ctx, bucket := f.in(frankfurt), t.Context(), new("fresh")
	enc, err := c.GetBucketEncryption(ctx, &sdk.GetBucketEncryptionInput{Bucket: bucket})
	if err != nil || enc.ServerSideEncryptionConfiguration.Rules[0].ApplyServerSideEncryptionByDefault.SSEAlgorithm != "AES256" {
		t.Errorf("encryption: %v", err)
	}
	block, err := c.GetPublicAccessBlock(ctx, &sdk.GetPublicAccessBlockInput{Bucket: bucket})
	if err != nil || !*block.PublicAccessBlockConfiguration.BlockPublicPolicy {
		t.Errorf("public access block: %v", err)
	}
	location, err := c.GetBucketLocation(ctx, &sdk.GetBucketLocationInput{Bucket: bucket})
	if err != nil || location.LocationConstraint != frankfurt {
		t.Errorf("location: %v", err)
	}
	_, err = c.GetBucketPolicy(ctx, &sdk.GetBucketPolicyInput{Bucket: bucket})
	if got := code(t, err); got != "NoSuchBucketPolicy" {
		t.Errorf("policy: %s", got)
	}
	_, err = c.GetBucketLifecycleConfiguration(ctx, &sdk.GetBucketLifecycleConfigurationInput{Bucket: bucket})
	if got := code(t, err); got != "NoSuchLifecycleConfiguration" {
		t.Errorf("lifecycle: %s", got)
	}
	_, err = c.GetBucketTagging(ctx, &sdk.GetBucketTaggingInput{Bucket: bucket})
	if got := code(t, err); got != "NoSuchTagSet" {
		t.Errorf("tags: %s", got)
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "state")
	c, ctx, bucket := f.in(frankfurt), t.Context(), new("state")
	lifecycle := func(rules ...types.LifecycleRule) error {
		_, err := c.PutBucketLifecycleConfiguration(ctx, &sdk.PutBucketLifecycleConfigurationInput{Bucket: bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: rules}})
		return err
	}
	putPolicy := func(text string) error {
		_, err := c.PutBucketPolicy(ctx, &sdk.PutBucketPolicyInput{Bucket: bucket, Policy: &text})
		return err
	}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{name: "policy is no JSON", err: putPolicy("{"), want: "MalformedPolicy"},
		{name: "policy for another bucket", err: putPolicy(`{"Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::other"}]}`), want: "MalformedPolicy"},
		{name: "policy without principal", err: putPolicy(`{"Statement":[{"Effect":"Deny","Action":"s3:*","Resource":"arn:aws:s3:::state"}]}`), want: "MalformedPolicy"},
		{name: "rule without action", err: lifecycle(types.LifecycleRule{Status: "Enabled", Filter: &types.LifecycleRuleFilter{}}), want: "InvalidRequest"},
		{name: "rule without filter", err: lifecycle(types.LifecycleRule{Status: "Enabled", Expiration: &types.LifecycleExpiration{Days: new(int32(1))}}), want: "MalformedXML"},
		{name: "zero days", err: lifecycle(types.LifecycleRule{Status: "Enabled", Filter: &types.LifecycleRuleFilter{}, Expiration: &types.LifecycleExpiration{Days: new(int32(0))}}), want: "InvalidArgument"},
	}
	for _, tt := range tests {
		if got := code(t, tt.err); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
