package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
)

// writeTimeout is how long one write of a stream may take: a client that does
// not read must not hold the source for ever.
const writeTimeout = 30 * time.Second

// Stream answers with what src gives, as it comes, and closes src in the end.
// When the request ends early, src is closed while it is being read, which must
// make the read return. An error of src cuts the connection: the status has been
// sent, and the client must not take a part for the whole.
func Stream(src io.ReadCloser, contentType string) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		r, w := humachi.Unwrap(hctx)
		stop := context.AfterFunc(r.Context(), func() { _ = src.Close() })
		defer func() {
			if stop() {
				_ = src.Close() // only read from: nothing is lost
			}
		}()
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Accel-Buffering", "no") // for proxies that would wait for more
		w.WriteHeader(http.StatusOK)
		if err := copyFlushed(w, src); err != nil {
			panic(http.ErrAbortHandler)
		}
	}}
}

func copyFlushed(w http.ResponseWriter, src io.Reader) error {
	control := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	// The client learns at once that the stream stands. Writers without flushing
	// or deadlines exist in tests only.
	_ = control.Flush()
	for {
		n, err := src.Read(buf)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			_ = control.Flush()
		}
		if errors.Is(err, io.EOF) {
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // for the end of the answer
			return nil
		}
		if err != nil {
			return err
		}
	}
}
