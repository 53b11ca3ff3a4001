package s3

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

var errChunk = errors.New("malformed chunk")

// decodeChunks reads the aws-chunked coding: chunks of "size[;chunk-signature=…]",
// CRLF, data, CRLF; after the empty one trailer headers. Chunk signatures are
// not checked: the request's head is signed, and checksums cover the data.
func decodeChunks(in []byte) (body []byte, trailer http.Header, err error) {
	for {
		line, rest, ok := bytes.Cut(in, []byte("\r\n"))
		if !ok {
			return nil, nil, fmt.Errorf("no size: %w", errChunk)
		}
		digits, _, _ := strings.Cut(string(line), ";")
		size, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 31)
		if err != nil {
			return nil, nil, fmt.Errorf("size: %w", errChunk)
		}
		if size == 0 {
			trailer, err := parseTrailer(rest)
			return body, trailer, err
		}
		if uint64(len(rest)) < size+2 || rest[size] != '\r' || rest[size+1] != '\n' {
			return nil, nil, fmt.Errorf("data: %w", errChunk)
		}
		body = append(body, rest[:size]...)
		in = rest[size+2:]
	}
}

func parseTrailer(in []byte) (http.Header, error) {
	trailer := http.Header{}
	for line := range strings.SplitSeq(string(in), "\r\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("trailer: %w", errChunk)
		}
		if strings.HasPrefix(strings.ToLower(name), "x-amz-checksum-") {
			trailer.Set(name, strings.TrimSpace(value))
		}
	}
	return trailer, nil
}
