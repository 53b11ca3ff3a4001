package awsfake

import (
	"bytes"
	"crypto/md5" //nolint:gosec // S3's entity tags are MD5 sums
	"encoding/hex"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
)

// settings are the query names of a bucket's settings and S3's names for them.
func settings() map[string]string {
	return map[string]string{
		"publicAccessBlock": "PublicAccessBlock",
		"ownershipControls": "BucketOwnershipControls",
		"encryption":        "BucketEncryption",
		"tagging":           "BucketTagging",
		"lifecycle":         "BucketLifecycleConfiguration",
		"policy":            "BucketPolicy",
		"versioning":        "BucketVersioning",
	}
}

// absent are S3's error codes for settings that nobody has set.
func absent(setting string) string {
	switch setting {
	case "lifecycle":
		return "NoSuchLifecycleConfiguration"
	case "policy":
		return "NoSuchBucketPolicy"
	case "tagging":
		return "NoSuchTagSet"
	case "encryption":
		return "ServerSideEncryptionConfigurationNotFoundError"
	case "publicAccessBlock":
		return "NoSuchPublicAccessBlockConfiguration"
	}
	return "OwnershipControlsNotFoundError"
}

func verb(method string) string {
	switch method {
	case http.MethodHead:
		return "Head"
	case http.MethodPut:
		return "Put"
	case http.MethodDelete:
		return "Delete"
	}
	return "Get"
}

func setting(r *http.Request) string {
	for name := range settings() {
		if r.URL.Query().Has(name) {
			return name
		}
	}
	return ""
}

// operation is S3's name for a request.
func operation(r *http.Request, key string) string {
	if key != "" {
		return verb(r.Method) + "Object"
	}
	if name := setting(r); name != "" {
		return verb(r.Method) + settings()[name]
	}
	switch r.Method {
	case http.MethodPut:
		return "CreateBucket"
	case http.MethodGet:
		return "ListObjectsV2"
	}
	return verb(r.Method) + "Bucket"
}

func (s *Server) serveS3(req request) {
	if req.operation == "CreateBucket" {
		s.createBucket(req)
		return
	}
	b := s.buckets[req.bucket]
	if b == nil {
		req.fail(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
		return
	}
	if signed := signedRegion(req.r); signed != b.region {
		req.fail(http.StatusMovedPermanently, "PermanentRedirect", "The bucket is in "+b.region)
		return
	}
	if owner := req.r.Header.Get("X-Amz-Expected-Bucket-Owner"); b.owner != Account || (owner != "" && owner != b.owner) {
		req.fail(http.StatusForbidden, "AccessDenied", "Access Denied")
		return
	}
	switch name := setting(req.r); {
	case name != "" && req.key == "":
		b.serveSetting(req, name)
	case req.key != "":
		s.serveObject(b, req)
	case req.operation == "ListObjectsV2":
		b.list(req)
	}
}

// signedRegion is the region that a request was signed for: the fake has one
// address for all regions.
func signedRegion(r *http.Request) string {
	// Credential=<key>/<date>/<region>/s3/aws4_request
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if parts := strings.Split(scope, "/"); len(parts) > 2 {
		return parts[2]
	}
	return ""
}

func (s *Server) createBucket(req request) {
	var in struct {
		LocationConstraint string
		Tags               struct {
			Tag []tag
		}
	}
	if len(req.body) > 0 {
		if err := xml.Unmarshal(req.body, &in); err != nil {
			req.fail(http.StatusBadRequest, "MalformedXML", err.Error())
			return
		}
	}
	region := signedRegion(req.r)
	b := s.buckets[req.bucket]
	switch {
	case region == "us-east-1" && in.LocationConstraint == "us-east-1":
		req.fail(http.StatusBadRequest, "InvalidLocationConstraint", "The specified location-constraint is not valid")
	case region != "us-east-1" && in.LocationConstraint != region:
		req.fail(http.StatusBadRequest, "IllegalLocationConstraintException", "The location constraint is incompatible for the region specific endpoint")
	case b != nil && b.owner != Account:
		req.fail(http.StatusConflict, "BucketAlreadyExists", "The requested bucket name is not available")
	case b != nil && region != "us-east-1":
		req.fail(http.StatusConflict, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded")
	case b == nil:
		b = &bucket{region: region, owner: Account, settings: map[string]string{}, objects: map[string]object{}}
		if len(in.Tags.Tag) > 0 {
			b.settings["tagging"] = tagging(in.Tags.Tag)
		}
		s.buckets[req.bucket] = b
	}
}

type tag struct{ Key, Value string }

func tagging(tags []tag) string {
	text, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"Tagging"`
		Tags    []tag    `xml:"TagSet>Tag"`
	}{Tags: tags})
	if err != nil { // strings can be written
		return ""
	}
	return string(text)
}

func (b *bucket) serveSetting(req request, name string) {
	switch req.r.Method {
	case http.MethodPut:
		b.settings[name] = string(req.body)
	case http.MethodGet:
		value, ok := b.settings[name]
		switch {
		case ok:
			req.write("%s", value)
		case name == "versioning":
			req.write("<VersioningConfiguration/>")
		default:
			req.fail(http.StatusNotFound, absent(name), "not set")
		}
	}
}

// serveObject serves an object, with the trouble that the test makes.
func (s *Server) serveObject(b *bucket, req request) {
	trouble := None
	if s.trouble != nil {
		trouble = s.trouble(req.operation, req.key)
	}
	switch trouble {
	case Refused:
		req.fail(http.StatusForbidden, "AccessDenied", "Access Denied")
	case AnswerLost:
		answer := req
		answer.w = httptest.NewRecorder()
		b.serveObject(answer)
		panic(http.ErrAbortHandler) // cuts the connection
	case None:
		b.serveObject(req)
	}
}

func (b *bucket) serveObject(req request) {
	o, ok := b.objects[req.key]
	switch req.r.Method {
	case http.MethodPut:
		if ok && req.r.Header.Get("If-None-Match") == "*" {
			req.fail(http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
			return
		}
		o = object{body: req.body, etag: etag(req.body)}
		b.objects[req.key] = o
		req.w.Header().Set("ETag", o.etag)
	case http.MethodGet, http.MethodHead:
		if !ok {
			req.fail(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
			return
		}
		req.w.Header().Set("ETag", o.etag)
		req.w.Header().Set("Content-Length", strconv.Itoa(len(o.body)))
		if req.r.Method == http.MethodGet {
			req.write("%s", o.body)
		}
	case http.MethodDelete:
		want := req.r.Header.Get("If-Match")
		switch {
		case want != "" && !ok:
			req.fail(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
			return
		case want != "" && want != "*" && want != o.etag:
			req.fail(http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
			return
		}
		delete(b.objects, req.key)
		req.w.WriteHeader(http.StatusNoContent)
	}
}

func (b *bucket) list(req request) {
	type content struct {
		Key  string
		Size int
	}
	var found []content
	prefix, delimiter := req.r.URL.Query().Get("prefix"), req.r.URL.Query().Get("delimiter")
	for key, o := range b.objects {
		rest, ok := strings.CutPrefix(key, prefix)
		if ok && (delimiter == "" || !strings.Contains(rest, delimiter)) {
			found = append(found, content{Key: key, Size: len(o.body)})
		}
	}
	slices.SortFunc(found, func(a, b content) int { return strings.Compare(a.Key, b.Key) })
	// A client that is gone needs no answer.
	_ = xml.NewEncoder(req.w).Encode(struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		Name        string
		KeyCount    int
		IsTruncated bool
		Contents    []content
	}{Name: req.bucket, KeyCount: len(found), Contents: found})
}

func etag(body []byte) string {
	sum := md5.Sum(body) //nolint:gosec // S3's entity tags are MD5 sums
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// unchunk undoes the SDK's chunked transfer with trailing checksums:
// <hex length>[;signature]\r\n<data>\r\n … 0\r\n<trailers>.
func unchunk(r *http.Request, body []byte) []byte {
	if !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		return body
	}
	var out []byte
	for {
		head, rest, ok := bytes.Cut(body, []byte("\r\n"))
		if !ok {
			return out
		}
		length, _, _ := strings.Cut(string(head), ";")
		n, err := strconv.ParseInt(length, 16, 32)
		if err != nil || n == 0 || int(n) > len(rest) {
			return out
		}
		out = append(out, rest[:n]...)
		body = bytes.TrimPrefix(rest[n:], []byte("\r\n"))
	}
}
