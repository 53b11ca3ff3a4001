package sessionmanager

import (
	"encoding/json"
	"regexp"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

// openMessage is the text frame by which a client opens a channel.
type openMessage struct {
	MessageSchemaVersion string
	RequestID            string `json:"RequestId"`
	TokenValue           string
	ClientID             string `json:"ClientId"`
	ClientVersion        string
}

// acknowledgement is the payload of an Acknowledge frame.
type acknowledgement struct {
	Type       frame.Type `json:"AcknowledgedMessageType"`
	ID         string     `json:"AcknowledgedMessageId"`
	Sequence   int64      `json:"AcknowledgedMessageSequenceNumber"`
	Sequential bool       `json:"IsSequentialMessage"`
}

// The handshake.
type (
	handshakeRequest struct {
		AgentVersion           string
		RequestedClientActions []requestedAction
	}
	requestedAction struct {
		ActionType       string
		ActionParameters any
	}
	sessionType struct {
		SessionType string
		Properties  map[string]string
	}
	encryption struct {
		KMSKeyID string `json:"KMSKeyId"`
	}
	handshakeResponse struct {
		ClientVersion          string
		ProcessedClientActions []processedAction
		Errors                 []string
	}
	processedAction struct {
		ActionType   string
		ActionStatus int
		ActionResult json.RawMessage
		Error        string
	}
	handshakeComplete struct {
		HandshakeTimeToComplete time.Duration // nanoseconds
		CustomerMessage         string
	}
)

const actionSucceeded = 1

// closedMessage is the payload of a Closed frame.
type closedMessage struct {
	MessageID     string `json:"MessageId"`
	CreatedDate   string
	DestinationID string `json:"DestinationId"`
	SessionID     string `json:"SessionId"`
	MessageType   frame.Type
	SchemaVersion int
	Output        string
}

// unnumbered is a frame outside the streams.
func unnumbered(t frame.Type, flags uint64, payload []byte) frame.Frame {
	return frame.Frame{Type: t, Schema: 1, Created: time.Now(), Flags: flags, ID: uuid.New(), Payload: payload}
}

func acknowledge(f frame.Frame) (frame.Frame, error) {
	payload, err := json.Marshal(acknowledgement{Type: f.Type, ID: f.ID.String(), Sequence: f.Sequence, Sequential: true})
	return unnumbered(frame.Acknowledge, frame.SYN|frame.FIN, payload), err
}

func closed(sessionID, target, output string) (frame.Frame, error) {
	payload, err := json.Marshal(closedMessage{
		MessageID: uuid.NewString(), CreatedDate: strconv.FormatInt(time.Now().UnixMilli(), 10), DestinationID: target, SessionID: sessionID,
		MessageType: frame.Closed, SchemaVersion: 1, Output: output,
	})
	return unnumbered(frame.Closed, 0, payload), err
}

var versionPattern = regexp.MustCompile(`^(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?$`)

// atLeast compares versions of three or four numbers; what is none is older than all.
func atLeast(version, least string) bool {
	a, b := versionPattern.FindStringSubmatch(version), versionPattern.FindStringSubmatch(least)
	if a == nil {
		return false
	}
	for i := 1; i < len(b); i++ {
		x, _ := strconv.Atoi(a[i]) // a missing fourth number is 0
		y, _ := strconv.Atoi(b[i])
		if x != y {
			return x > y
		}
	}
	return true
}
