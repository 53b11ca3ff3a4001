package sessionmanager

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// acknowledgement says that a message of the agent's has been taken.
type acknowledgement struct {
	sequence int64
	id       uuid.UUID
}

// frame is the acknowledgement as a message. It is written without
// encoding/json since there is one for every message received.
func (a acknowledgement) frame(now time.Time) []byte {
	frame := make([]byte, offsetPayload, offsetPayload+224)
	frame = append(frame, `{"AcknowledgedMessageType":"`+typeOutput+`","AcknowledgedMessageId":"`...)
	frame = append(frame, a.id.String()...)
	frame = append(frame, `","AcknowledgedMessageSequenceNumber":`...)
	frame = strconv.AppendInt(frame, a.sequence, 10)
	frame = append(frame, `,"IsSequentialMessage":true}`...)
	sealed(frame, typeAcknowledge, 0, flagsAcknowledge, payloadNone, now)
	return frame
}

// acknowledged is the sequence number that the peer's acknowledgement is about.
// The one in the payload counts; that of the message itself is always 0.
func acknowledged(payload []byte) (int64, error) {
	var body struct {
		Sequence *int64 `json:"AcknowledgedMessageSequenceNumber"`
	}
	if err := json.Unmarshal(payload, &body); err != nil {
		return 0, fmt.Errorf("acknowledgement: %w", err)
	}
	if body.Sequence == nil {
		return 0, fmt.Errorf("acknowledgement has no sequence number")
	}
	return *body.Sequence, nil
}
