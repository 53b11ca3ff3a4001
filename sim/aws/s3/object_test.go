package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"
)

func put(key, body string) *sdk.PutObjectInput {
	return &sdk.PutObjectInput{Bucket: new("state"), Key: &key, Body: strings.NewReader(body)}
}

func TestOnlyOneOfManyConditionalWritersWins(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "state")
	c := f.in(frankfurt)
	const writers = 20
	codes := make(chan string, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			in := put("terraform.tfstate.tflock", fmt.Sprintf("writer %d", i))
			in.IfNoneMatch = new("*")
			_, err := c.PutObject(t.Context(), in)
			codes <- code(t, err)
		})
	}
	wg.Wait()
	close(codes)
	count := map[string]int{}
	for got := range codes {
		count[got]++
	}
	if count["ok"] != 1 || count["PreconditionFailed"]+count["ConditionalRequestConflict"] != writers-1 {
		t.Errorf("answers: %v", count)
	}
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "state")
	c, ctx := f.in(frankfurt), t.Context()
	out, err := c.PutObject(ctx, put("k", "one"))
	if err != nil {
		t.Fatal(err)
	}
	etag := *out.ETag
	write := func(key string, ifMatch, ifNoneMatch *string) error {
		in := put(key, "one")
		in.IfMatch, in.IfNoneMatch = ifMatch, ifNoneMatch
		_, err := c.PutObject(ctx, in)
		return err
	}
	remove := func(key, ifMatch string) error {
		_, err := c.DeleteObject(ctx, &sdk.DeleteObjectInput{Bucket: new("state"), Key: &key, IfMatch: &ifMatch})
		return err
	}
	steps := []struct {
		name string
		do   func() error
		want string
	}{
		{"create what exists", func() error { return write("k", nil, new("*")) }, "PreconditionFailed"},
		{"create what does not", func() error { return write("k2", nil, new("*")) }, "ok"},
		{"replace another state", func() error { return write("k", new(`"0123"`), nil) }, "PreconditionFailed"},
		{"replace this state", func() error { return write("k", &etag, nil) }, "ok"},
		{"replace any state", func() error { return write("k", new("*"), nil) }, "ok"},
		{"replace nothing", func() error { return write("none", &etag, nil) }, "NoSuchKey"},
		{"delete another state", func() error { return remove("k", `"0123"`) }, "PreconditionFailed"},
		{"delete nothing", func() error { return remove("none", etag) }, "NoSuchKey"},
		{"delete this state", func() error { return remove("k", etag) }, "ok"},
		{"delete it again", func() error { return remove("k", etag) }, "NoSuchKey"},
		{"create after deletion", func() error { return write("k", nil, new("*")) }, "ok"},
	}
	for _, s := range steps {
		if got := code(t, s.do()); got != s.want {
			t.Errorf("%s: %s, want %s", s.name, got, s.want)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "state")
	c, ctx, bucket := f.in(frankfurt), t.Context(), new("state")
	if _, err := c.PutObject(ctx, put("k", "before versions")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutBucketVersioning(ctx, &sdk.PutBucketVersioningInput{Bucket: bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}}); err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, body := range []string{"one", "two"} {
		out, err := c.PutObject(ctx, put("k", body))
		if err != nil {
			t.Fatal(err)
		}
		ids[body] = *out.VersionId
	}
	deleted, err := c.DeleteObject(ctx, &sdk.DeleteObjectInput{Bucket: bucket, Key: new("k")})
	if err != nil || !*deleted.DeleteMarker {
		t.Fatalf("delete: %+v, %v", deleted, err)
	}
	read := func(version *string) string {
		out, err := c.GetObject(ctx, &sdk.GetObjectInput{Bucket: bucket, Key: new("k"), VersionId: version})
		if err != nil {
			return code(t, err)
		}
		body, err := io.ReadAll(out.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if got := read(nil); got != "NoSuchKey" {
		t.Errorf("newest after deletion: %s", got)
	}
	if got := read(new(ids["one"])); got != "one" {
		t.Errorf("version one: %s", got)
	}
	head, err := c.HeadObject(ctx, &sdk.HeadObjectInput{Bucket: bucket, Key: new("k"), VersionId: new(ids["two"])})
	if err != nil || *head.VersionId != ids["two"] {
		t.Errorf("head of version two: %+v, %v", head, err)
	}
	list, err := c.ListObjectVersions(ctx, &sdk.ListObjectVersionsInput{Bucket: bucket})
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, v := range list.Versions {
		listed = append(listed, *v.VersionId)
	}
	if diff := cmp.Diff([]string{ids["two"], ids["one"], "null"}, listed); diff != "" || len(list.DeleteMarkers) != 1 || !*list.DeleteMarkers[0].IsLatest {
		t.Errorf("versions (-want +got):\n%s\nmarkers: %+v", diff, list.DeleteMarkers)
	}
	// Without its marker the object is back.
	if _, err := c.DeleteObject(ctx, &sdk.DeleteObjectInput{Bucket: bucket, Key: new("k"), VersionId: deleted.VersionId}); err != nil {
		t.Fatal(err)
	}
	if got := read(nil); got != "two" {
		t.Errorf("newest without the marker: %s", got)
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "state")
	want := []string{}
	for i := range 25 {
		key := fmt.Sprintf("dir%d/key-%02d", i%3, i)
		want = append(want, key)
		if err := f.service.PutObject("state", key, nil); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	var got, prefixes []string
	pages := sdk.NewListObjectsV2Paginator(f.in(frankfurt), &sdk.ListObjectsV2Input{Bucket: new("state"), MaxKeys: new(int32(4))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			got = append(got, *o.Key)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	pages = sdk.NewListObjectsV2Paginator(f.in(frankfurt), &sdk.ListObjectsV2Input{Bucket: new("state"), MaxKeys: new(int32(1)), Delimiter: new("/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.CommonPrefixes {
			prefixes = append(prefixes, *p.Prefix)
		}
	}
	if diff := cmp.Diff([]string{"dir0/", "dir1/", "dir2/"}, prefixes); diff != "" {
		t.Errorf("prefixes (-want +got):\n%s", diff)
	}
}

func TestHeadersOfAnObject(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "state")
	c, ctx := f.in(frankfurt), t.Context()
	in := put("k", "one")
	in.Metadata, in.ContentType = map[string]string{"run": "1"}, new("application/json")
	if _, err := c.PutObject(ctx, in); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CopyObject(ctx, &sdk.CopyObjectInput{Bucket: new("state"), Key: new("copy"), CopySource: new("state/k")}); err != nil {
		t.Fatal(err)
	}
	// An object that is written again inherits nothing.
	again := put("k", "two")
	again.Metadata = map[string]string{"other": "2"}
	again.ChecksumAlgorithm = types.ChecksumAlgorithmSha256
	if _, err := c.PutObject(ctx, again); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]map[string]string{"k": {"other": "2"}, "copy": {"run": "1"}} {
		out, err := c.HeadObject(ctx, &sdk.HeadObjectInput{Bucket: new("state"), Key: &key, ChecksumMode: types.ChecksumModeEnabled})
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(out.Metadata, want) || (out.ChecksumSHA256 != nil) != (key == "k") || out.VersionId != nil {
			t.Errorf("%s: %+v", key, out)
		}
	}
}

func TestMultipartUpload(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket(t, "state")
	c, ctx, bucket, key := f.in(frankfurt), t.Context(), new("state"), new("large")
	up, err := c.CreateMultipartUpload(ctx, &sdk.CreateMultipartUploadInput{Bucket: bucket, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	part := bytes.Repeat([]byte("p"), 5<<20)
	var parts []types.CompletedPart
	for n := int32(1); n <= 2; n++ {
		out, err := c.UploadPart(ctx, &sdk.UploadPartInput{Bucket: bucket, Key: key, UploadId: up.UploadId, PartNumber: &n, Body: bytes.NewReader(part)})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, types.CompletedPart{ETag: out.ETag, PartNumber: new(n)})
	}
	if _, err := c.CompleteMultipartUpload(ctx, &sdk.CompleteMultipartUploadInput{Bucket: bucket, Key: key, UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}}); err != nil {
		t.Fatal(err)
	}
	if body, err := f.service.Object("state", "large"); err != nil || len(body) != 2*len(part) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

// send writes a raw request, as an SDK over TLS would make it.
func send(ctx context.Context, t *testing.T, f *fixture, header map[string]string, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, f.url+"/state/chunked", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Date", "20261130T100000Z")
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20261130/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature="+strings.Repeat("0", 64))
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(out)
}

func TestChunkedBodies(t *testing.T) {
	t.Parallel()
	signature := ";chunk-signature=" + strings.Repeat("0", 64)
	tests := []struct {
		name, sha, length, body string
		header                  map[string]string
		want                    int
	}{
		{name: "signed chunks", sha: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", length: "9", body: "5" + signature + "\r\nhello\r\n4" + signature + "\r\n you\r\n0" + signature + "\r\n\r\n", want: 200},
		{name: "trailing checksum", sha: "STREAMING-UNSIGNED-PAYLOAD-TRAILER", length: "9", body: "9\r\nhello you\r\n0\r\nx-amz-checksum-crc32:iOOe2w==\r\n\r\n", want: 200},
		{name: "wrong trailing checksum", sha: "STREAMING-UNSIGNED-PAYLOAD-TRAILER", length: "9", body: "9\r\nhello you\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", want: 400},
		{name: "wrong length", sha: "STREAMING-UNSIGNED-PAYLOAD-TRAILER", length: "8", body: "9\r\nhello you\r\n0\r\n\r\n", want: 400},
		{name: "cut off", sha: "STREAMING-UNSIGNED-PAYLOAD-TRAILER", length: "9", body: "9\r\nhello", want: 400},
		{name: "wrong checksum header", sha: "UNSIGNED-PAYLOAD", body: "hello you", header: map[string]string{"X-Amz-Checksum-Sha256": "AAAA"}, want: 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.bucket(t, "state")
			header := map[string]string{"X-Amz-Content-Sha256": tt.sha, "Content-Encoding": "aws-chunked"}
			if tt.length != "" {
				header["X-Amz-Decoded-Content-Length"] = tt.length
			}
			maps.Copy(header, tt.header)
			got, body := send(t.Context(), t, f, header, tt.body)
			if got != tt.want {
				t.Fatalf("got %d, want %d: %s", got, tt.want, body)
			}
			stored, err := f.service.Object("state", "chunked")
			if (err == nil) != (tt.want == 200) || err == nil && string(stored) != "hello you" {
				t.Errorf("stored %q, %v", stored, err)
			}
		})
	}
}
