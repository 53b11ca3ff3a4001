package s3

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const encryptionHeader = "X-Amz-Server-Side-Encryption"

// serveObject applies preconditions and body encodings, then lets gofakes3 answer.
func (s *Service) serveObject(w http.ResponseWriter, r *http.Request, t target, b *bucket) error {
	switch t.operation {
	case "PutObject", "UploadPart":
		if err := decodeBody(r); err != nil {
			return err
		}
	case "GetObject", "HeadObject", "DeleteObject", "CopyObject", "CreateMultipartUpload",
		"CompleteMultipartUpload", "AbortMultipartUpload", "ListParts":
	default:
		return notImplemented(t.operation)
	}
	switch t.operation {
	case "GetObject", "HeadObject":
		w = &checksumFilter{ResponseWriter: w, request: r}
		return s.readObject(w, r)
	case "PutObject", "CopyObject", "CompleteMultipartUpload", "CreateMultipartUpload":
		s.encrypt(w, r, b)
	case "DeleteObject":
	default:
		s.wire.ServeHTTP(w, r)
		return nil
	}
	if t.operation == "CreateMultipartUpload" {
		s.wire.ServeHTTP(w, r)
		return nil
	}
	return s.writeObject(w, r, t)
}

// readObject makes up for gofakes3's HEAD, which takes no version.
func (s *Service) readObject(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodHead && r.URL.Query().Has("versionId") {
		get := r.Clone(r.Context())
		get.Method = http.MethodGet
		s.wire.ServeHTTP(bodiless{w}, get)
		return nil
	}
	s.wire.ServeHTTP(w, r)
	return nil
}

type bodiless struct{ http.ResponseWriter }

func (bodiless) Write(p []byte) (int, error) { return len(p), nil }

// writeObject holds the key while its precondition is checked and it is
// written, so that of several writers with If-None-Match one wins.
func (s *Service) writeObject(w http.ResponseWriter, r *http.Request, t target) error {
	ifMatch, ifNoneMatch := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	name := t.bucket + "/" + t.key
	if ifMatch == "" && ifNoneMatch == "" {
		defer s.writes.lock(name)()
		s.wire.ServeHTTP(w, r)
		return nil
	}
	unlock, ok := s.writes.tryLock(name)
	if !ok {
		return refuse(http.StatusConflict, "ConditionalRequestConflict",
			"The conditional request cannot succeed due to a conflicting operation against this resource.")
	}
	defer unlock()
	if ifNoneMatch != "" && ifNoneMatch != "*" {
		return refuse(http.StatusNotImplemented, "NotImplemented",
			"A header you provided implies functionality that is not implemented: If-None-Match takes * only")
	}
	etag, err := s.objects.etag(t.bucket, t.key)
	exists := err == nil
	switch {
	case ifNoneMatch == "*" && exists:
		return preconditionFailed()
	case ifMatch != "" && !exists:
		return refuse(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
	case ifMatch != "" && ifMatch != "*" && strings.Trim(ifMatch, `"`) != etag:
		return preconditionFailed()
	}
	if ifMatch == "*" {
		r.Header.Del("If-Match") // gofakes3 would compare it
	}
	s.wire.ServeHTTP(w, r)
	return nil
}

func preconditionFailed() error {
	return refuse(http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
}

// encrypt marks an object as encrypted: there are no others since January 2023.
func (s *Service) encrypt(w http.ResponseWriter, r *http.Request, b *bucket) {
	algorithm := r.Header.Get(encryptionHeader)
	if algorithm == "" {
		algorithm = "AES256"
		b.mu.RLock()
		if bytes.Contains(b.settings["encryption"], []byte("aws:kms")) {
			algorithm = "aws:kms"
		}
		b.mu.RUnlock()
		r.Header.Set(encryptionHeader, algorithm)
	}
	w.Header().Set(encryptionHeader, algorithm)
}

// decodeBody takes chunk framing off a body and checks its checksum.
func decodeBody(r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		var trailer http.Header
		if body, trailer, err = decodeChunks(body); err != nil {
			return refuse(http.StatusBadRequest, "IncompleteBody", "The request body is not chunked as its headers say")
		}
		if want := r.Header.Get("X-Amz-Decoded-Content-Length"); want != strconv.Itoa(len(body)) {
			return refuse(http.StatusBadRequest, "IncompleteBody", "The request body has not the decoded length that its headers say")
		}
		maps.Copy(r.Header, trailer)
		r.Header.Del("X-Amz-Content-Sha256") // gofakes3 would look for chunks
		stripChunkedEncoding(r.Header)
	}
	if err := verifyChecksums(r.Header, body); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// stripChunkedEncoding keeps other codings of the content: they are the object's.
func stripChunkedEncoding(h http.Header) {
	var kept []string
	for coding := range strings.SplitSeq(h.Get("Content-Encoding"), ",") {
		if coding = strings.TrimSpace(coding); coding != "" && coding != "aws-chunked" {
			kept = append(kept, coding)
		}
	}
	if len(kept) == 0 {
		h.Del("Content-Encoding")
		return
	}
	h.Set("Content-Encoding", strings.Join(kept, ","))
}

// keyLocks are mutexes by name.
type keyLocks struct {
	mu    sync.Mutex
	locks map[string]*keyLock
}

type keyLock struct {
	mu    sync.Mutex
	users int
}

func (l *keyLocks) use(name string) *keyLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks == nil {
		l.locks = map[string]*keyLock{}
	}
	k := l.locks[name]
	if k == nil {
		k = &keyLock{}
		l.locks[name] = k
	}
	k.users++
	return k
}

func (l *keyLocks) release(name string, k *keyLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.locks, name)
	}
}

func (l *keyLocks) lock(name string) (unlock func()) {
	k := l.use(name)
	k.mu.Lock()
	return func() {
		k.mu.Unlock()
		l.release(name, k)
	}
}

func (l *keyLocks) tryLock(name string) (unlock func(), ok bool) {
	k := l.use(name)
	if !k.mu.TryLock() {
		l.release(name, k)
		return nil, false
	}
	return func() {
		k.mu.Unlock()
		l.release(name, k)
	}, true
}
