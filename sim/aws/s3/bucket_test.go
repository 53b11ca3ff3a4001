package s3_test

import (
	"net/http"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
)

func TestCreateBucketAppliesTheLocationRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, region, constraint, bucket, want string
	}{
		{name: "us-east-1 takes no constraint", region: virginia, bucket: "aaa", want: "ok"},
		{name: "us-east-1 is no constraint", region: virginia, constraint: virginia, bucket: "aaa", want: "InvalidLocationConstraint"},
		{name: "us-east-1 takes no other region", region: virginia, constraint: frankfurt, bucket: "aaa", want: "IllegalLocationConstraintException"},
		{name: "elsewhere it is the region", region: frankfurt, constraint: frankfurt, bucket: "aaa", want: "ok"},
		{name: "elsewhere it is needed", region: frankfurt, bucket: "aaa", want: "IllegalLocationConstraintException"},
		{name: "elsewhere it is no other region", region: frankfurt, constraint: "eu-west-1", bucket: "aaa", want: "IllegalLocationConstraintException"},
		{name: "EU is Ireland", region: "eu-west-1", constraint: "EU", bucket: "aaa", want: "ok"},
		{name: "upper case", region: virginia, bucket: "Aaa", want: "InvalidBucketName"},
		{name: "a reserved suffix", region: virginia, bucket: "aaa-s3alias", want: "InvalidBucketName"},
		{name: "an empty label", region: virginia, bucket: "a..b", want: "InvalidBucketName"},
		{name: "short labels", region: virginia, bucket: "a.b", want: "ok"},
		{name: "an address", region: virginia, bucket: "192.168.1.1", want: "InvalidBucketName"},
		{name: "64 characters", region: virginia, bucket: "a123456789012345678901234567890123456789012345678901234567890123", want: "InvalidBucketName"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			_, err := f.in(tt.region).CreateBucket(t.Context(), create(tt.bucket, tt.constraint))
			if got := code(t, err); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if b, ok := f.service.Bucket(tt.bucket); ok != (tt.want == "ok") || ok && b.Region != tt.region {
				t.Errorf("bucket exists: %t, %+v", ok, b)
			}
		})
	}
}

func TestCreateBucketAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	if err := f.service.SeedBucket("foreign", frankfurt, "999999999999"); err != nil {
		t.Fatal(err)
	}
	f.bucket(t, "ours")
	if _, err := f.in(virginia).CreateBucket(ctx, create("old", "")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, region, constraint, bucket, want string
	}{
		{name: "ours", region: frankfurt, constraint: frankfurt, bucket: "ours", want: "BucketAlreadyOwnedByYou"},
		{name: "ours, from us-east-1", region: virginia, bucket: "ours", want: "BucketAlreadyOwnedByYou"},
		{name: "ours in us-east-1", region: virginia, bucket: "old", want: "ok"},
		{name: "another account's", region: frankfurt, constraint: frankfurt, bucket: "foreign", want: "BucketAlreadyExists"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := f.in(tt.region).CreateBucket(ctx, create(tt.bucket, tt.constraint))
			if got := code(t, err); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestHeadBucketTellsTheRegion(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "ours")
	if err := f.service.SeedBucket("foreign", frankfurt, "999999999999"); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, region, bucket, owner string
		want                        int
		wantRegion                  string
	}{
		{name: "ours", region: frankfurt, bucket: "ours", want: http.StatusOK},
		{name: "ours with its owner", region: frankfurt, bucket: "ours", owner: accountID, want: http.StatusOK},
		{name: "ours with another owner", region: frankfurt, bucket: "ours", owner: "999999999999", want: http.StatusForbidden, wantRegion: frankfurt},
		{name: "ours from another region", region: virginia, bucket: "ours", want: http.StatusMovedPermanently, wantRegion: frankfurt},
		{name: "another account's", region: frankfurt, bucket: "foreign", want: http.StatusForbidden, wantRegion: frankfurt},
		{name: "nobody's", region: frankfurt, bucket: "nobody", want: http.StatusNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := &sdk.HeadBucketInput{Bucket: &tt.bucket}
			if tt.owner != "" {
				in.ExpectedBucketOwner = &tt.owner
			}
			out, err := f.in(tt.region).HeadBucket(t.Context(), in)
			if got := status(t, err); got != tt.want {
				t.Fatalf("got %d, want %d (%v)", got, tt.want, err)
			}
			if err == nil && *out.BucketRegion != frankfurt {
				t.Errorf("region %s", *out.BucketRegion)
			}
			if err != nil && regionOf(t, err) != tt.wantRegion {
				t.Errorf("region %q, want %q", regionOf(t, err), tt.wantRegion)
			}
		})
	}
}

func TestExpectedOwnerIsCheckedEverywhere(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "ours")
	c, other := f.in(frankfurt), "999999999999"
	for name, call := range map[string]func() error{
		"put": func() error {
			_, err := c.PutObject(t.Context(), &sdk.PutObjectInput{Bucket: new("ours"), Key: new("k"), ExpectedBucketOwner: &other})
			return err
		},
		"list": func() error {
			_, err := c.ListObjectsV2(t.Context(), &sdk.ListObjectsV2Input{Bucket: new("ours"), ExpectedBucketOwner: &other})
			return err
		},
		"versioning": func() error {
			_, err := c.GetBucketVersioning(t.Context(), &sdk.GetBucketVersioningInput{Bucket: new("ours"), ExpectedBucketOwner: &other})
			return err
		},
		"delete": func() error {
			_, err := c.DeleteBucket(t.Context(), &sdk.DeleteBucketInput{Bucket: new("ours"), ExpectedBucketOwner: &other})
			return err
		},
	} {
		if got := code(t, call()); got != "AccessDenied" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestDeleteBucketWantsItEmpty(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "ours")
	c := f.in(frankfurt)
	if err := f.service.PutObject("ours", "k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	in := &sdk.DeleteBucketInput{Bucket: new("ours")}
	if _, err := c.DeleteBucket(t.Context(), in); code(t, err) != "BucketNotEmpty" {
		t.Errorf("got %v", err)
	}
	if _, err := c.DeleteObject(t.Context(), &sdk.DeleteObjectInput{Bucket: new("ours"), Key: new("k")}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteBucket(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListObjectsV2(t.Context(), &sdk.ListObjectsV2Input{Bucket: new("ours")}); code(t, err) != "NoSuchBucket" {
		t.Errorf("got %v", err)
	}
}

func TestVirtualHostAddressesTheBucket(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "my.bucket")
	if err := f.service.PutObject("my.bucket", "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"my.bucket.localhost:4566":                http.StatusOK,
		"my.bucket.s3.localhost":                  http.StatusOK,
		"my.bucket.s3.eu-central-1.amazonaws.com": http.StatusOK,
		"my.bucket.s3.amazonaws.com":              http.StatusOK,
		"other.s3.amazonaws.com":                  http.StatusNotFound,
		"s3.eu-central-1.amazonaws.com":           http.StatusNotFound, // path style: the bucket would be "a"
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+"/a/b", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("X-Amz-Date", "20261130T100000Z")
		req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20261130/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature="+
			"0000000000000000000000000000000000000000000000000000000000000000")
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, resp.StatusCode, want)
		}
	}
}
