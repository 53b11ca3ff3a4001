package s3

import (
	"crypto/sha1" //nolint:gosec // one of S3's checksums
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"net/http"
	"strings"
)

const checksumPrefix = "X-Amz-Checksum-"

// nvme is the reversed polynomial of CRC-64/NVME.
const nvme = 0x9a6c9329ac4bc9b5

func newChecksum(name string) hash.Hash {
	switch name {
	case "Crc32":
		return crc32.NewIEEE()
	case "Crc32c":
		return crc32.New(crc32.MakeTable(crc32.Castagnoli))
	case "Crc64nvme":
		return crc64.New(crc64.MakeTable(nvme))
	case "Sha1":
		return sha1.New() //nolint:gosec // one of S3's checksums
	case "Sha256":
		return sha256.New()
	}
	return nil
}

// verifyChecksums compares the body with the checksums that came with it.
func verifyChecksums(h http.Header, body []byte) error {
	for name, values := range h {
		kind, ok := strings.CutPrefix(name, checksumPrefix)
		if !ok {
			continue
		}
		sum := newChecksum(kind)
		if sum == nil {
			continue // "Algorithm", "Type", and what is newer than this code
		}
		_, _ = sum.Write(body) // never fails
		if base64.StdEncoding.EncodeToString(sum.Sum(nil)) != values[0] {
			return refuse(http.StatusBadRequest, "BadDigest",
				"The "+strings.ToUpper(kind)+" you specified did not match the calculated checksum.")
		}
	}
	return nil
}

// checksumFilter gives an object's checksums only to who asked for them, and
// for the whole object.
type checksumFilter struct {
	http.ResponseWriter

	request *http.Request
	done    bool
}

func (f *checksumFilter) WriteHeader(status int) {
	f.filter()
	f.ResponseWriter.WriteHeader(status)
}

func (f *checksumFilter) Write(p []byte) (int, error) {
	f.filter()
	return f.ResponseWriter.Write(p)
}

func (f *checksumFilter) filter() {
	if f.done {
		return
	}
	f.done = true
	if f.request.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" && f.request.Header.Get("Range") == "" {
		return
	}
	for name := range f.Header() {
		if strings.HasPrefix(name, checksumPrefix) {
			f.Header().Del(name)
		}
	}
}
