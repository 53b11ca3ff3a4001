package sessionmanager

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Message types. Each is in its field padded with spaces.
const (
	typeInput       = "input_stream_data"  // client to agent
	typeOutput      = "output_stream_data" // agent to client
	typeAcknowledge = "acknowledge"
	typeClosed      = "channel_closed"
	typeStart       = "start_publication"
	typePause       = "pause_publication"
)

// Payload types of stream data that a port session uses.
const (
	payloadNone              uint32 = 0
	payloadData              uint32 = 1
	payloadHandshakeRequest  uint32 = 5
	payloadHandshakeResponse uint32 = 6
	payloadHandshakeComplete uint32 = 7
	payloadFlag              uint32 = 10
)

// Values of a flag's payload.
const (
	flagTerminate    uint32 = 2
	flagConnectError uint32 = 3
)

// flagsAcknowledge are both bits, SYN and FIN, which every acknowledgement has.
const flagsAcknowledge uint64 = 3

// Layout of a message, big-endian. The header's own length field, the first
// four bytes, counts neither the payload's length nor the payload.
const (
	offsetType          = 4
	offsetSchema        = 36
	offsetCreated       = 40
	offsetSequence      = 48
	offsetFlags         = 56
	offsetID            = 64
	offsetDigest        = 80
	offsetPayloadType   = 112
	offsetPayloadLength = 116
	headerLength        = 116
	offsetPayload       = 120

	schemaVersion = 1
)

// maxPayload is the most bytes of data in one message, for agent and client.
const maxPayload = 1024

// maxFrame bounds what the peer may send in one message. Data has at most
// maxPayload bytes; a handshake carries account preferences and may be longer.
const maxFrame = 128 << 10

type message struct {
	kind        string
	created     int64 // milliseconds since 1970
	sequence    int64
	flags       uint64
	id          uuid.UUID
	payloadType uint32
	payload     []byte
}

// newID is a random UUID of version 4.
func newID() uuid.UUID {
	var id uuid.UUID
	_, _ = rand.Read(id[:]) // never fails, by its documentation
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// seal writes the header of m into the first offsetPayload bytes of frame, whose
// rest is the payload; m's own payload is not looked at.
func (m message) seal(frame []byte) {
	payload := frame[offsetPayload:]
	binary.BigEndian.PutUint32(frame, headerLength)
	n := copy(frame[offsetType:offsetSchema], m.kind)
	for i := offsetType + n; i < offsetSchema; i++ {
		frame[i] = ' '
	}
	binary.BigEndian.PutUint32(frame[offsetSchema:], schemaVersion)
	binary.BigEndian.PutUint64(frame[offsetCreated:], uint64(m.created))   //nolint:gosec // a time after 1970
	binary.BigEndian.PutUint64(frame[offsetSequence:], uint64(m.sequence)) //nolint:gosec // counts from 0
	binary.BigEndian.PutUint64(frame[offsetFlags:], m.flags)
	// The agent's language keeps a UUID as two numbers and writes the lower first.
	copy(frame[offsetID:], m.id[8:])
	copy(frame[offsetID+8:], m.id[:8])
	digest := sha256.Sum256(payload)
	copy(frame[offsetDigest:], digest[:])
	binary.BigEndian.PutUint32(frame[offsetPayloadType:], m.payloadType)
	binary.BigEndian.PutUint32(frame[offsetPayloadLength:], uint32(len(payload))) //nolint:gosec // at most maxFrame
}

// encode is m as bytes.
func (m message) encode() []byte {
	frame := make([]byte, offsetPayload, offsetPayload+len(m.payload))
	frame = append(frame, m.payload...)
	m.seal(frame)
	return frame
}

// parse reads one message; its payload is a part of frame. The two publication
// messages may be empty but for their type, and nothing else of them is read.
func parse(frame []byte) (message, error) {
	if len(frame) < offsetSchema {
		return message{}, fmt.Errorf("message of %d bytes has no type", len(frame))
	}
	m := message{kind: strings.TrimRight(string(frame[offsetType:offsetSchema]), " \x00")}
	if m.kind == typeStart || m.kind == typePause {
		return m, nil
	}
	if len(frame) < offsetPayload {
		return message{}, fmt.Errorf("message of %d bytes is shorter than its header", len(frame))
	}
	if n := binary.BigEndian.Uint32(frame); n != headerLength {
		return message{}, fmt.Errorf("header length is %d, not %d", n, headerLength)
	}
	if v := binary.BigEndian.Uint32(frame[offsetSchema:]); v != schemaVersion {
		return message{}, fmt.Errorf("schema version is %d, not %d", v, schemaVersion)
	}
	if n := binary.BigEndian.Uint32(frame[offsetPayloadLength:]); int64(n) != int64(len(frame)-offsetPayload) {
		return message{}, fmt.Errorf("payload length is %d, not %d", n, len(frame)-offsetPayload)
	}
	m.created = int64(binary.BigEndian.Uint64(frame[offsetCreated:]))   //nolint:gosec // a sign is refused below
	m.sequence = int64(binary.BigEndian.Uint64(frame[offsetSequence:])) //nolint:gosec // a sign is refused below
	m.flags = binary.BigEndian.Uint64(frame[offsetFlags:])
	copy(m.id[8:], frame[offsetID:])
	copy(m.id[:8], frame[offsetID+8:])
	m.payloadType = binary.BigEndian.Uint32(frame[offsetPayloadType:])
	m.payload = frame[offsetPayload:]
	switch {
	case m.kind == "":
		return message{}, errors.New("message has no type")
	case m.created <= 0:
		return message{}, errors.New("message has no date")
	case m.sequence < 0:
		return message{}, fmt.Errorf("sequence number is %d", m.sequence)
	}
	if digest := sha256.Sum256(m.payload); len(m.payload) != 0 && !bytes.Equal(digest[:], frame[offsetDigest:offsetPayloadType]) {
		return message{}, errors.New("payload does not match its digest")
	}
	return m, nil
}

// sealed makes the header for frame's payload, with a new id and the time now.
func sealed(frame []byte, kind string, sequence int64, flags uint64, payloadType uint32, now time.Time) {
	message{
		kind: kind, created: now.UnixMilli(), sequence: sequence, flags: flags,
		id: newID(), payloadType: payloadType,
	}.seal(frame)
}
