package sessionmanagertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// frame is one message.
type frame struct {
	kind        string
	sequence    int64
	flags       uint64
	id          uuid.UUID
	payloadType uint32
	payload     []byte
}

// wire is the header, field by field.
type wire struct {
	HeaderLength  uint32
	Type          [32]byte
	Schema        uint32
	Created       uint64
	Sequence      int64
	Flags         uint64
	ID            [16]byte
	Digest        [32]byte
	PayloadType   uint32
	PayloadLength uint32
}

func swapped(id [16]byte) [16]byte {
	return [16]byte(slices.Concat(id[8:], id[:8]))
}

func (f frame) encode() []byte {
	w := wire{
		HeaderLength: 116, Schema: 1, Created: uint64(time.Now().UnixMilli()), Sequence: f.sequence, Flags: f.flags,
		ID: swapped(uuid.New()), Digest: sha256.Sum256(f.payload), PayloadType: f.payloadType, PayloadLength: uint32(len(f.payload)),
	}
	copy(w.Type[:], fmt.Sprintf("%-32s", f.kind))
	var b bytes.Buffer
	_ = binary.Write(&b, binary.BigEndian, w)
	b.Write(f.payload)
	return b.Bytes()
}

func decode(b []byte) (frame, error) {
	var w wire
	r := bytes.NewReader(b)
	if err := binary.Read(r, binary.BigEndian, &w); err != nil {
		return frame{}, err
	}
	f := frame{
		kind: strings.TrimRight(string(w.Type[:]), " "), sequence: w.Sequence, flags: w.Flags, id: swapped(w.ID),
		payloadType: w.PayloadType, payload: b[len(b)-r.Len():],
	}
	if w.HeaderLength != 116 || w.Schema != 1 || w.Created == 0 || int(w.PayloadLength) != len(f.payload) ||
		w.Digest != sha256.Sum256(f.payload) || f.id.Version() != 4 {
		return frame{}, errors.New("not a message")
	}
	return f, nil
}
