package s3

import (
	"errors"
	"testing"
)

func FuzzDecodeChunks(f *testing.F) {
	f.Add([]byte("5;chunk-signature=0\r\nhello\r\n0;chunk-signature=0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n"))
	f.Add([]byte("0\r\n\r\n"))
	f.Add([]byte("ffffffff\r\nx\r\n"))
	f.Add([]byte("-1\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		body, _, err := decodeChunks(in)
		if err != nil && !errors.Is(err, errChunk) {
			t.Errorf("error is of another kind: %v", err)
		}
		if len(body) > len(in) {
			t.Errorf("%d bytes became %d", len(in), len(body))
		}
	})
}

// A write that is going on makes a conditional one fail rather than wait.
func TestConditionalWriteMeetsAWriteInProgress(t *testing.T) {
	t.Parallel()
	var locks keyLocks
	unlock := locks.lock("bucket/key")
	if _, ok := locks.tryLock("bucket/key"); ok {
		t.Error("a held key was locked again")
	}
	other, ok := locks.tryLock("bucket/other")
	if !ok {
		t.Fatal("another key is locked")
	}
	other()
	unlock()
	again, ok := locks.tryLock("bucket/key")
	if !ok {
		t.Fatal("a released key is locked")
	}
	again()
	if len(locks.locks) > 0 {
		t.Errorf("%d locks are left", len(locks.locks))
	}
}
