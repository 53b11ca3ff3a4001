package emulator

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
)

// Answer takes an answer to look into or change before it is sent.
type Answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// NewAnswer returns an empty answer, to be given to a handler.
func NewAnswer() *Answer { return &Answer{header: http.Header{}} }

// Header is the answer's header.
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader takes the status; interim ones are left out.
func (a *Answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

func (a *Answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Status is 200 unless another one was written.
func (a *Answer) Status() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}

// Body is what was written.
func (a *Answer) Body() []byte { return a.body.Bytes() }

// Send sends the answer with this body in place of its own.
func (a *Answer) Send(w http.ResponseWriter, body []byte) {
	a.header.Set("Content-Length", strconv.Itoa(len(body)))
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.Status())
	_, _ = w.Write(body) // the client is gone: there is nobody to tell
}
