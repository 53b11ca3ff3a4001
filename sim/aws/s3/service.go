package s3

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/johannesboyne/gofakes3"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// Config is what the fake needs.
type Config struct {
	AccountID string           // required: whose buckets these are
	Now       func() time.Time // nil: time.Now
}

// Service answers S3 calls.
type Service struct {
	accountID string
	now       func() time.Time
	objects   *store
	wire      http.Handler // gofakes3
	writes    keyLocks

	mu      sync.RWMutex
	buckets map[string]*bucket
}

// New returns a fake without buckets.
func New(cfg Config) (*Service, error) {
	if cfg.AccountID == "" {
		return nil, errors.New("s3: account id is required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	store := newStore(cfg.Now)
	return &Service{
		accountID: cfg.AccountID,
		now:       cfg.Now,
		objects:   store,
		// The gateway has checked the clock; gofakes3 would do it again in its own way.
		wire:    gofakes3.New(store, gofakes3.WithTimeSkewLimit(0)).Server(),
		buckets: map[string]*bucket{},
	}, nil
}

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, t := locate(r)
	w.Header().Set("Server", "AmazonS3")
	if err := s.serve(w, r, t); err != nil {
		apiErr, ok := errors.AsType[*protocol.Error](err)
		if !ok {
			apiErr = &protocol.Error{Status: http.StatusInternalServerError, Code: "InternalError", Message: err.Error()}
		}
		protocol.WriteError(w, r, protocol.S3, w.Header().Get("X-Amzn-Requestid"), apiErr)
	}
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request, t target) error {
	if t.bucket == "" {
		if r.Method != http.MethodGet {
			return refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.")
		}
		s.wire.ServeHTTP(w, r)
		return nil
	}
	if t.operation == "CreateBucket" {
		return s.createBucket(w, r, t)
	}
	b, err := s.open(w, r, t)
	if err != nil {
		return err
	}
	switch {
	case t.key != "":
		return s.serveObject(w, r, t, b)
	case t.operation == "HeadBucket":
		w.WriteHeader(http.StatusOK)
		return nil
	case t.operation == "DeleteBucket":
		return s.deleteBucket(w, t)
	case t.setting != nil:
		return s.serveSetting(w, r, t, b)
	case servedByWire[t.operation]:
		s.wire.ServeHTTP(w, r)
		return nil
	}
	return notImplemented(t.operation)
}

// servedByWire lists the bucket operations that gofakes3 answers.
var servedByWire = map[string]bool{
	"ListObjects": true, "ListObjectsV2": true, "ListObjectVersions": true, "DeleteObjects": true,
	"ListMultipartUploads": true, "GetBucketVersioning": true, "PutBucketVersioning": true,
}

// open finds the bucket and checks that this caller may use it from here.
func (s *Service) open(w http.ResponseWriter, r *http.Request, t target) (*bucket, error) {
	s.mu.RLock()
	b := s.buckets[t.bucket]
	s.mu.RUnlock()
	if b == nil {
		return nil, refuse(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	}
	if t.operation == "HeadBucket" {
		w.Header().Set("X-Amz-Bucket-Region", b.region)
	}
	// Where a bucket is can be asked from anywhere.
	if region := keyring.CallerFrom(r.Context()).Region; region != b.region && t.operation != "GetBucketLocation" {
		w.Header().Set("X-Amz-Bucket-Region", b.region)
		return nil, refuse(http.StatusMovedPermanently, "PermanentRedirect",
			"The bucket you are attempting to access must be addressed using the specified endpoint. It is in region "+b.region+".")
	}
	expected := r.Header.Get("X-Amz-Expected-Bucket-Owner")
	if b.owner != s.accountID || expected != "" && expected != b.owner {
		return nil, accessDenied()
	}
	return b, nil
}

// target is what a request is about.
type target struct {
	bucket    string
	key       string
	operation string
	setting   *setting // of the bucket, if the request is about one
}

// hostedBucket finds the bucket in a virtual host's name.
var hostedBucket = regexp.MustCompile(`^(.+?)\.(?:localhost|s3(?:[.-][a-z0-9-]+)?\.(?:localhost|amazonaws\.com))(?::\d+)?$`)

// ownHost matches the endpoint itself, which must not be taken for a bucket.
var ownHost = regexp.MustCompile(`^s3(?:[.-][a-z0-9-]+)?\.(?:localhost|amazonaws\.com)(?::\d+)?$`)

// locate reads the target and returns the request in path style, which is how
// it is served from here on.
func locate(r *http.Request) (*http.Request, target) {
	path := r.URL.Path
	if m := hostedBucket.FindStringSubmatch(r.Host); m != nil && !ownHost.MatchString(r.Host) {
		path = "/" + m[1] + r.URL.Path
		clone := *r
		clone.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
		r = &clone
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	t := target{bucket: bucket, key: key}
	t.operation, t.setting = operationOf(r, t)
	return r, t
}

// Operation names the operation that a request asks for.
func (s *Service) Operation(r *http.Request) string {
	_, t := locate(r)
	return t.operation
}

func refuse(status int, code, message string) error {
	return &protocol.Error{Status: status, Code: code, Message: message}
}

func accessDenied() error {
	return refuse(http.StatusForbidden, "AccessDenied", "Access Denied")
}

func notImplemented(operation string) error {
	return refuse(http.StatusNotImplemented, "NotImplemented", fmt.Sprintf("The simulator does not have the operation %s.", operation))
}
