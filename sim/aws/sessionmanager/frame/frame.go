// Package frame is the binary frame of Session Manager's data channel, as the
// fake service and its tests write and read it.
//
// A frame is a fixed header of 120 bytes, all numbers in big-endian order, and a
// payload:
//
//	offset  size
//	     0     4  length of the header up to the payload length: 116
//	     4    32  message type, padded with spaces
//	    36     4  schema version: 1
//	    40     8  creation, milliseconds since 1970
//	    48     8  sequence number
//	    56     8  flags
//	    64    16  message id, a UUID with its halves swapped
//	    80    32  SHA-256 of the payload
//	   112     4  payload type
//	   116     4  payload length
//	   120        payload
//
// testdata has frames that were put together by hand from this table.
package frame

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Sizes in bytes.
const (
	HeaderLength = 116 // as a frame says it: without the payload length
	Overhead     = 120 // in front of the payload
	// MaxData is the longest payload of a data frame; agent and plugin cut at it.
	MaxData = 1024
)

// Type says what a frame is.
type Type string

// The types that a client sees.
const (
	Input       Type = "input_stream_data"  // from the client
	Output      Type = "output_stream_data" // from the agent
	Acknowledge Type = "acknowledge"        // both ways, about one of the two above
	Closed      Type = "channel_closed"     // from the service: the session is over
	Start       Type = "start_publication"  // from the service: the other side is there
	Pause       Type = "pause_publication"  // from the service: the other side is away
)

// Payload is the kind of the payload of an Input or Output frame.
type Payload uint32

// The kinds that port sessions use.
const (
	Data                Payload = 1
	HandshakeRequest    Payload = 5
	HandshakeResponse   Payload = 6
	HandshakeComplete   Payload = 7
	EncryptionChallenge Payload = 8
	EncryptionResponse  Payload = 9
	Flag                Payload = 10
)

// The values of a Flag payload, a uint32.
const (
	DisconnectToPort   uint32 = 1
	TerminateSession   uint32 = 2
	ConnectToPortError uint32 = 3
)

// The bits of a frame's flags.
const (
	SYN uint64 = 1 // the first frame of a direction
	FIN uint64 = 2
)

// Frame is one message. The digest is made when it is written.
type Frame struct {
	Type     Type
	Schema   uint32
	Created  time.Time // to the millisecond; zero is written as 0
	Sequence int64
	Flags    uint64
	ID       uuid.UUID
	Kind     Payload
	Payload  []byte
}

// What is wrong with bytes that are no frame.
var (
	ErrHeaderLength = errors.New("header length is not 116")
	ErrLength       = errors.New("frame is not as long as it says")
	ErrDigest       = errors.New("digest is not that of the payload")
	ErrField        = errors.New("field has a wrong value")
)

// Append writes f to the end of b.
func (f Frame) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, HeaderLength)
	b = append(b, fmt.Sprintf("%-32.32s", f.Type)...)
	b = binary.BigEndian.AppendUint32(b, f.Schema)
	b = binary.BigEndian.AppendUint64(b, milliseconds(f.Created))
	b = binary.BigEndian.AppendUint64(b, uint64(f.Sequence)) //nolint:gosec // the same bits
	b = binary.BigEndian.AppendUint64(b, f.Flags)
	b = append(b, f.ID[8:]...)
	b = append(b, f.ID[:8]...)
	digest := sha256.Sum256(f.Payload)
	b = append(b, digest[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(f.Kind))
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Payload))) //nolint:gosec // a websocket message is far shorter
	return append(b, f.Payload...)
}

func milliseconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixMilli())
}

// Parse reads a frame. It is strict where an agent would only fail later: each
// field but the id has to be as the table has it. The payload is a part of b.
func Parse(b []byte) (Frame, error) {
	if len(b) < Overhead {
		return Frame{}, fmt.Errorf("%w: %d bytes", ErrLength, len(b))
	}
	if n := binary.BigEndian.Uint32(b); n != HeaderLength {
		return Frame{}, fmt.Errorf("%w but %d", ErrHeaderLength, n)
	}
	f := Frame{
		Type:     Type(bytes.TrimRight(b[4:36], " \x00")),
		Schema:   binary.BigEndian.Uint32(b[36:]),
		Sequence: int64(binary.BigEndian.Uint64(b[48:])), //nolint:gosec // the same bits
		Flags:    binary.BigEndian.Uint64(b[56:]),
		Kind:     Payload(binary.BigEndian.Uint32(b[112:])),
		Payload:  b[Overhead:],
	}
	copy(f.ID[8:], b[64:72])
	copy(f.ID[:8], b[72:80])
	if ms := int64(binary.BigEndian.Uint64(b[40:])); ms != 0 { //nolint:gosec // the same bits
		f.Created = time.UnixMilli(ms)
	}
	if n := binary.BigEndian.Uint32(b[116:]); uint64(n) != uint64(len(f.Payload)) {
		return Frame{}, fmt.Errorf("%w: payload length %d, there are %d", ErrLength, n, len(f.Payload))
	}
	if f.Type == Start || f.Type == Pause {
		return f, nil // may be empty but for the type
	}
	if digest := sha256.Sum256(f.Payload); len(f.Payload) > 0 && !bytes.Equal(digest[:], b[80:112]) {
		return Frame{}, ErrDigest
	}
	switch {
	case f.Type == "":
		return Frame{}, fmt.Errorf("%w: no message type", ErrField)
	case f.Schema != 1:
		return Frame{}, fmt.Errorf("%w: schema version %d", ErrField, f.Schema)
	case f.Created.IsZero():
		return Frame{}, fmt.Errorf("%w: no creation date", ErrField)
	case f.Sequence < 0:
		return Frame{}, fmt.Errorf("%w: sequence number %d", ErrField, f.Sequence)
	}
	return f, nil
}
