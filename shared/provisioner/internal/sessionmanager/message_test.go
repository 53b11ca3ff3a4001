package sessionmanager

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

var example = message{
	kind: typeInput, created: 1_500_000_000_000, sequence: 7, flags: 1,
	id: uuid.MustParse("00112233-4455-4677-8899-aabbccddeeff"), payloadType: payloadData, payload: []byte("hello"),
}

// TestLayout holds the bytes against the documented offsets.
func TestLayout(t *testing.T) {
	t.Parallel()
	frame := example.encode()
	for _, field := range []struct {
		name     string
		at, size int
		want     string
	}{
		{"header length", 0, 4, "\x00\x00\x00\x74"},
		{"type", 4, 32, "input_stream_data               "},
		{"schema", 36, 4, "\x00\x00\x00\x01"},
		{"created", 40, 8, "\x00\x00\x01\x5d\x3e\xf7\x98\x00"},
		{"sequence", 48, 8, "\x00\x00\x00\x00\x00\x00\x00\x07"},
		{"flags", 56, 8, "\x00\x00\x00\x00\x00\x00\x00\x01"},
		{"id, its halves swapped", 64, 16, "\x88\x99\xaa\xbb\xcc\xdd\xee\xff\x00\x11\x22\x33\x44\x55\x46\x77"},
		{"digest", 80, 8, "\x2c\xf2\x4d\xba\x5f\xb0\xa3\x0e"}, // of hello, its beginning
		{"payload type", 112, 4, "\x00\x00\x00\x01"},
		{"payload length", 116, 4, "\x00\x00\x00\x05"},
		{"payload", 120, 5, "hello"},
	} {
		if got := string(frame[field.at : field.at+field.size]); got != field.want {
			t.Errorf("%s is %q, want %q", field.name, got, field.want)
		}
	}
	if len(frame) != 125 {
		t.Errorf("length is %d", len(frame))
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		edit func(b []byte) []byte
		want string
	}{
		{"nothing", func([]byte) []byte { return nil }, "no type"},
		{"half a header", func(b []byte) []byte { return b[:100] }, "shorter than its header"},
		{"another header length", func(b []byte) []byte { b[3] = 117; return b }, "header length is 117"},
		{"another schema", func(b []byte) []byte { b[39] = 2; return b }, "schema version is 2"},
		{"no type", func(b []byte) []byte { copy(b[4:36], strings.Repeat(" ", 32)); return b }, "no type"},
		{"no date", func(b []byte) []byte { copy(b[40:48], make([]byte, 8)); return b }, "no date"},
		{"negative sequence", func(b []byte) []byte { b[48] = 0x80; return b }, "sequence number is -"},
		{"cut payload", func(b []byte) []byte { return b[:124] }, "payload length is 5, not 4"},
		{"longer payload", func(b []byte) []byte { return append(b, 'x') }, "payload length is 5, not 6"},
		{"huge payload", func(b []byte) []byte { binary.BigEndian.PutUint32(b[116:], 1<<31); return b }, "payload length is 2147483648"},
		{"changed payload", func(b []byte) []byte { b[124] ^= 1; return b }, "digest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := parse(test.edit(example.encode())); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want it to have %q", err, test.want)
			}
		})
	}
}

func TestParsePublication(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{typeStart, typePause} {
		frame := make([]byte, offsetPayload)
		copy(frame[offsetType:], kind)
		if m, err := parse(frame); err != nil || m.kind != kind {
			t.Errorf("%s that is empty otherwise: %v, %v", kind, m, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(example.encode())
	f.Add(message{kind: typeAcknowledge, created: 1, payload: []byte("{}")}.encode())
	f.Add(message{kind: typeOutput, created: 1}.encode())
	f.Add([]byte("too short"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := parse(frame)
		if err != nil || m.kind == typeStart || m.kind == typePause {
			return
		}
		again, err := parse(m.encode())
		if err != nil {
			t.Fatalf("what was read cannot be written and read again: %v", err)
		}
		if diff := cmp.Diff(m, again, cmp.AllowUnexported(message{})); diff != "" {
			t.Errorf("not the same again (-first +second):\n%s", diff)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"AgentVersion":"3.1","RequestedClientActions":[{"ActionType":"SessionType","ActionParameters":{"SessionType":"Port","Properties":{"portNumber":"22","type":""}}}]}`))
	f.Add([]byte(`{"RequestedClientActions":[{"ActionType":"KMSEncryption","ActionParameters":{"KMSKeyID":1}}]}`))
	f.Add([]byte(`{"RequestedClientActions":[null]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if response, refusal, err := answer(payload); err == nil && (response == nil || refusal == nil && strings.Contains(string(response), `"ActionStatus":2`)) {
			t.Errorf("response %s, refusal %v", response, refusal)
		}
	})
}
