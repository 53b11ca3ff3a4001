package sessionmanager

import (
	"encoding/json"
	"fmt"
)

const (
	// channelVersion is what the client says its version is. The service turns away
	// versions before 1.2.764.0, from when on the upgrade request is signed.
	channelVersion = "1.3.0.0"
	// rawVersion is below 1.1.70, from when on an agent multiplexes a session whose
	// document says LocalPortForwarding; below that it sends the raw stream.
	rawVersion = "1.1.0.0"
)

// openMessage is the first frame on a websocket, as text.
type openMessage struct {
	MessageSchemaVersion string
	RequestID            string `json:"RequestId"`
	TokenValue           string
	ClientID             string `json:"ClientId"`
	ClientVersion        string
}

type handshakeRequest struct {
	AgentVersion           string
	RequestedClientActions []struct {
		ActionType       string
		ActionParameters json.RawMessage
	}
}

// Values of ActionStatus.
const (
	actionDone        = 1
	actionFailed      = 2
	actionUnsupported = 3
)

type handshakeResponse struct {
	ClientVersion          string
	ProcessedClientActions []processedAction
	Errors                 []string
}

type processedAction struct {
	ActionType   string
	ActionStatus int
	ActionResult any
	Error        string
}

// answer is the response to the agent's handshake request, and what in it is
// refused, if anything: the agent gives up on such a response by itself.
func answer(payload []byte) (response []byte, refusal, err error) {
	var request handshakeRequest
	if err := json.Unmarshal(payload, &request); err != nil {
		return nil, nil, fmt.Errorf("handshake request: %w", err)
	}
	out := handshakeResponse{ClientVersion: channelVersion, ProcessedClientActions: []processedAction{}, Errors: []string{}}
	for _, action := range request.RequestedClientActions {
		done := processedAction{ActionType: action.ActionType, ActionStatus: actionDone}
		var err error
		switch action.ActionType {
		case "SessionType":
			var session struct {
				SessionType string
				Properties  struct {
					Type string `json:"type"`
				}
			}
			switch err = json.Unmarshal(action.ActionParameters, &session); {
			case err != nil:
				err = fmt.Errorf("session type of the handshake request: %w", err)
			case session.SessionType != "Port":
				err = fmt.Errorf("session is of type %q, not Port: its document is not one of port forwarding", session.SessionType)
			case session.Properties.Type == "LocalPortForwarding":
				out.ClientVersion = rawVersion
			}
			if err != nil {
				done.ActionStatus = actionFailed
			}
		case "KMSEncryption":
			var key struct{ KMSKeyID string }
			// Which key it is only makes the message better.
			_ = json.Unmarshal(action.ActionParameters, &key)
			err = &EncryptionRequiredError{KeyID: key.KMSKeyID}
			done.ActionStatus = actionUnsupported
		default:
			err = fmt.Errorf("agent %s asks for %q, which is not known", request.AgentVersion, action.ActionType)
			done.ActionStatus = actionUnsupported
		}
		if err != nil {
			done.Error = err.Error()
			out.Errors = append(out.Errors, done.Error)
			if refusal == nil {
				refusal = err
			}
		}
		out.ProcessedClientActions = append(out.ProcessedClientActions, done)
	}
	if response, err = json.Marshal(out); err != nil {
		return nil, nil, fmt.Errorf("handshake response: %w", err)
	}
	return response, refusal, nil
}
