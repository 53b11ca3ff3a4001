package frame_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

// vector reads a frame that is written down field by field.
func vector(tb testing.TB, name string) []byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		field, _, _ := strings.Cut(line, "#")
		digits.WriteString(strings.TrimSpace(field))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

var frames = map[string]frame.Frame{
	"input.hex": {
		Type: frame.Input, Schema: 1, Created: time.UnixMilli(1700000000123), Sequence: 1,
		ID: uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff"), Kind: frame.Data, Payload: []byte("hello"),
	},
	"acknowledge.hex": {
		Type: frame.Acknowledge, Schema: 1, Created: time.UnixMilli(1700000000124), Flags: frame.SYN | frame.FIN,
		ID: uuid.MustParse("f0e1d2c3-b4a5-4697-8879-6a5b4c3d2e1f"),
		Payload: []byte(`{"AcknowledgedMessageType":"output_stream_data","AcknowledgedMessageId":"00112233-4455-6677-8899-aabbccddeeff",` +
			`"AcknowledgedMessageSequenceNumber":1,"IsSequentialMessage":true}`),
	},
	"start.hex": {Type: frame.Start, Schema: 1},
}

func TestFramesAreLaidOutAsTheTableSays(t *testing.T) {
	t.Parallel()
	for name, want := range frames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := vector(t, name)
			got, err := frame.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(raw, want.Append(nil)); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefusesWhatIsNoFrame(t *testing.T) {
	t.Parallel()
	good := frames["input.hex"]
	change := func(f func(*frame.Frame)) []byte {
		c := good
		f(&c)
		return c.Append(nil)
	}
	patch := func(offset int, value ...byte) []byte {
		b := good.Append(nil)
		copy(b[offset:], value)
		return b
	}
	tests := []struct {
		name string
		raw  []byte
		want error
	}{
		{"nothing", nil, frame.ErrLength},
		{"a header that stops", good.Append(nil)[:119], frame.ErrLength},
		{"header length with the payload length", patch(0, 0, 0, 0, 120), frame.ErrHeaderLength},
		{"header length beyond the frame", patch(0, 0xff, 0xff, 0xff, 0xff), frame.ErrHeaderLength},
		{"payload length too small", patch(116, 0, 0, 0, 4), frame.ErrLength},
		{"payload length too large", patch(116, 0xff, 0xff, 0xff, 0xff), frame.ErrLength},
		{"a changed payload", patch(120, 'j'), frame.ErrDigest},
		{"a changed digest", patch(80, 0), frame.ErrDigest},
		{"another schema version", change(func(f *frame.Frame) { f.Schema = 2 }), frame.ErrField},
		{"no date", change(func(f *frame.Frame) { f.Created = time.Time{} }), frame.ErrField},
		{"no type", change(func(f *frame.Frame) { f.Type = "" }), frame.ErrField},
		{"a negative number", change(func(f *frame.Frame) { f.Sequence = -1 }), frame.ErrField},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if f, err := frame.Parse(tt.raw); !errors.Is(err, tt.want) {
				t.Errorf("got %+v, %v; want %v", f, err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for name := range frames {
		f.Add(vector(f, name))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := frame.Parse(b)
		if err != nil {
			return
		}
		again, err := frame.Parse(got.Append(nil))
		if err != nil {
			if got.Type == frame.Start || got.Type == frame.Pause {
				return
			}
			t.Fatalf("%+v is not read again: %v", got, err)
		}
		if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
		if n := binary.BigEndian.Uint32(b[116:]); int(n) != len(got.Payload) {
			t.Errorf("%d bytes of payload, %d are said", len(got.Payload), n)
		}
	})
}
