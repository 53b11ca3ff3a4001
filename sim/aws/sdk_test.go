package aws_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
)

func TestCallerIdentityIsTheKeysPrincipal(t *testing.T) {
	t.Parallel()
	out, err := sts.NewFromConfig(config(t)).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil {
		t.Fatal(err)
	}
	if *out.Arn != userARN || *out.Account != theAccount(t).ID() || !strings.HasPrefix(*out.UserId, "AIDA") {
		t.Errorf("got %s, %s, %s", *out.Arn, *out.Account, *out.UserId)
	}
}

func TestEmulatorAnswersWhatHasNoFake(t *testing.T) {
	t.Parallel()
	client := ec2.NewFromConfig(config(t))
	vpc, err := client.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: new("10.9.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{VpcIds: []string{*vpc.Vpc.VpcId}})
	if err != nil {
		t.Fatal(err)
	}
	if *out.Vpcs[0].OwnerId != theAccount(t).ID() {
		t.Errorf("owner is %s, want %s", *out.Vpcs[0].OwnerId, theAccount(t).ID())
	}
}

func TestObjectRoundTripBySDK(t *testing.T) {
	t.Parallel()
	client := s3.NewFromConfig(config(t), func(o *s3.Options) { o.UsePathStyle = true })
	ctx := t.Context()
	bucket := "sdk-round-trip"
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket, CreateBucketConfiguration: &s3types.CreateBucketConfiguration{LocationConstraint: region}}); err != nil {
		t.Fatal(err)
	}
	head, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &bucket, ExpectedBucketOwner: new(theAccount(t).ID())})
	if err != nil {
		t.Fatal(err)
	}
	if *head.BucketRegion != region {
		t.Errorf("bucket region is %s", *head.BucketRegion)
	}
	body := bytes.Repeat([]byte("state\n"), 50_000)
	if _, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: new("a dir/key+1"), Body: bytes.NewReader(body)}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: new("sha"), Body: bytes.NewReader(body), ChecksumAlgorithm: s3types.ChecksumAlgorithmSha256}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a dir/key+1", "sha"} {
		out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(out.Body)
		if err != nil || !bytes.Equal(got, body) || out.ServerSideEncryption != "AES256" {
			t.Errorf("%s: %d bytes, %v, encryption %q", key, len(got), err, out.ServerSideEncryption)
		}
	}
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: new("sha"), Range: new("bytes=0-4")})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(out.Body); err != nil || string(got) != "state" {
		t.Errorf("range: %q, %v", got, err)
	}
	list, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range list.Contents {
		keys = append(keys, *o.Key)
	}
	if diff := cmp.Diff([]string{"a dir/key+1", "sha"}, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	_, err = client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: new("none")})
	if _, ok := errors.AsType[*s3types.NoSuchKey](err); !ok {
		t.Errorf("missing key: %v", err)
	}
	_, err = client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: new("none")})
	if apiErr, ok := errors.AsType[smithy.APIError](err); !ok || apiErr.ErrorCode() != "NotFound" {
		t.Errorf("head of missing key: %v", err)
	}
}
