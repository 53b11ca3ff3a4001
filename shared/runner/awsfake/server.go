// Package awsfake is the little of AWS that the tests of runners need, over real
// HTTP: S3 buckets with their settings, objects with conditional writes and deletions, STS's
// GetCallerIdentity, IAM's GetRole and SSM's GetParameters. It is written for the
// AWS SDK and for Terraform's S3 backend with path-style addresses. Signatures are not checked.
package awsfake

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Account is the account of the fake's caller.
const Account = "123456789012"

// Fault answers a request in the fake's place: with an error code and an HTTP
// status. An empty code means that the fake answers itself.
type Fault func(operation, bucket string) (code string, status int)

// Trouble is what befalls a request for an object.
type Trouble int

// The kinds of trouble.
const (
	None       Trouble = iota
	Refused            // 403, nothing happens
	AnswerLost         // it is carried out, and then the connection is cut
)

// Server is a fake AWS.
type Server struct {
	URL string

	mu         sync.Mutex
	fault      Fault
	trouble    func(operation, key string) Trouble
	callerARN  string
	roleARN    string
	region     string // of new buckets without location
	buckets    map[string]*bucket
	parameters map[string]string // of SSM
	operations []string
}

type bucket struct {
	region   string
	owner    string
	settings map[string]string // by query name, as they were put
	objects  map[string]object
}

type object struct {
	body []byte
	etag string
}

// New starts a fake; it stops with the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{
		callerARN: "arn:aws:iam::" + Account + ":user/kubeopera",
		region:    "us-east-1",
		buckets:   map[string]*bucket{},

		parameters: map[string]string{},
	}
	srv := httptest.NewServer(s)
	tb.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// SetFault makes requests fail from now on.
func (s *Server) SetFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// SetTrouble decides from now on what befalls requests for objects; nil: nothing.
func (s *Server) SetTrouble(trouble func(operation, key string) Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = trouble
}

// SetCaller sets whom GetCallerIdentity names.
func (s *Server) SetCaller(arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callerARN = arn
}

// SetRole sets the ARN that IAM's GetRole gives; without one it may not be asked.
func (s *Server) SetRole(arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roleARN = arn
}

// AddBucket puts a bucket there that nobody asked the fake for.
func (s *Server) AddBucket(name, region, owner string, settings map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if settings == nil {
		settings = map[string]string{}
	}
	s.buckets[name] = &bucket{region: region, owner: owner, settings: settings, objects: map[string]object{}}
}

// Settings are what a bucket was set to, by the query name of each setting.
func (s *Server) Settings(bucket string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[bucket]
	if b == nil {
		return nil
	}
	return maps.Clone(b.settings)
}

// Object is an object's content.
func (s *Server) Object(bucket, key string) (body []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[bucket]
	if b == nil {
		return nil, false
	}
	o, ok := b.objects[key]
	return o.body, ok
}

// PutObject puts an object there.
func (s *Server) PutObject(bucket, key string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[bucket].objects[key] = object{body: body, etag: etag(body)}
}

// Keys are the keys of a bucket's objects, in order.
func (s *Server) Keys(bucket string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[bucket]
	if b == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(b.objects))
}

// Operations are the requests so far, such as "CreateBucket".
func (s *Server) Operations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.operations)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	req := request{w: w, r: r, body: body}
	if scope := r.Header.Get("Authorization"); strings.Contains(scope, "/sts/") || strings.Contains(scope, "/iam/") {
		s.serveIdentity(req)
		return
	}
	if strings.Contains(r.Header.Get("Authorization"), "/ssm/") {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		s.serveSSM(req)
		return
	}
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	req.bucket, req.key, req.body = name, key, unchunk(r, body)
	req.operation = operation(r, key)

	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.buckets[name]; b != nil { // S3 says so with refusals too
		w.Header().Set("X-Amz-Bucket-Region", b.region)
	}
	if s.failed(req) {
		return
	}
	s.serveS3(req)
}

type request struct {
	w                      http.ResponseWriter
	r                      *http.Request
	body                   []byte
	bucket, key, operation string
}

// failed notes the operation and lets a fault answer it.
func (s *Server) failed(req request) bool {
	s.operations = append(s.operations, req.operation)
	if s.fault == nil {
		return false
	}
	code, status := s.fault(req.operation, req.bucket)
	if code == "" {
		return false
	}
	req.fail(status, code, "a fault of the test")
	return true
}

func (s *Server) serveIdentity(req request) {
	values, err := url.ParseQuery(string(req.body))
	if err != nil {
		req.fail(http.StatusBadRequest, "MalformedQueryString", err.Error())
		return
	}
	req.operation = values.Get("Action")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operations = append(s.operations, req.operation)
	if s.fault != nil {
		if code, status := s.fault(req.operation, ""); code != "" {
			req.w.WriteHeader(status)
			req.write("<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>a fault of the test</Message></Error><RequestId>1</RequestId></ErrorResponse>", code)
			return
		}
	}
	if req.operation == "GetRole" {
		if s.roleARN == "" {
			req.w.WriteHeader(http.StatusForbidden)
			req.write("<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not authorized to perform iam:GetRole</Message></Error><RequestId>1</RequestId></ErrorResponse>")
			return
		}
		req.write(`<GetRoleResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><GetRoleResult><Role><Arn>%s</Arn><Path>/</Path><RoleName>x</RoleName><RoleId>AROAEXAMPLE</RoleId><CreateDate>2026-01-01T00:00:00Z</CreateDate></Role></GetRoleResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetRoleResponse>`, s.roleARN)
		return
	}
	req.write(`<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>%s</Arn><UserId>AIDAEXAMPLE</UserId><Account>%s</Account></GetCallerIdentityResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetCallerIdentityResponse>`, s.callerARN, Account)
}

// write writes an answer; a client that is gone needs none.
func (req request) write(format string, args ...any) { _, _ = fmt.Fprintf(req.w, format, args...) }

// fail answers with S3's form of an error. A HEAD's answer has no body.
func (req request) fail(status int, code, message string) {
	req.w.Header().Set("Content-Type", "application/xml")
	req.w.WriteHeader(status)
	if req.r.Method == http.MethodHead {
		return
	}
	// A client that is gone needs no answer.
	_ = xml.NewEncoder(req.w).Encode(struct {
		XMLName   xml.Name `xml:"Error"`
		Code      string
		Message   string
		RequestID string `xml:"RequestId"`
	}{Code: code, Message: message, RequestID: "1"})
}
