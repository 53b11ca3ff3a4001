package protocol

import (
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
)

// Error is an answer of AWS that says no.
type Error struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// ErrorCodeHeader carries the error's code in JSON protocols. The gateway reads
// it in every protocol to record what was answered.
const ErrorCodeHeader = "X-Amzn-Errortype"

// WriteError answers r with e in protocol p.
func WriteError(w http.ResponseWriter, r *http.Request, p Protocol, requestID string, e *Error) {
	h := w.Header()
	h.Set(ErrorCodeHeader, e.Code)
	h.Set("X-Amzn-Requestid", requestID)
	var body []byte
	switch p {
	case JSON:
		h.Set("Content-Type", "application/x-amz-json-1.1")
		body = mustJSON(map[string]string{"__type": e.Code, "message": e.Message})
	case RESTJSON:
		h.Set("Content-Type", "application/json")
		body = mustJSON(map[string]string{"message": e.Message})
	case CBOR:
		h.Set("Content-Type", "application/cbor")
		h.Set("Smithy-Protocol", "rpc-v2-cbor")
		body = cborError(e.Code, e.Message)
	case S3:
		h.Set("Content-Type", "application/xml")
		h.Set("X-Amz-Request-Id", requestID)
		body = mustXML(s3Error{Code: e.Code, Message: e.Message, Resource: r.URL.Path, RequestID: requestID, HostID: requestID})
	case EC2:
		h.Set("Content-Type", "text/xml;charset=UTF-8")
		body = mustXML(ec2Error{Code: e.Code, Message: e.Message, RequestID: requestID})
	default:
		h.Set("Content-Type", "text/xml")
		body = mustXML(queryError{Type: errorType(e.Status), Code: e.Code, Message: e.Message, RequestID: requestID})
	}
	w.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client is gone: there is nobody to tell
	}
}

func errorType(status int) string {
	if status >= http.StatusInternalServerError {
		return "Receiver"
	}
	return "Sender"
}

type s3Error struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string
	Message   string
	Resource  string
	RequestID string `xml:"RequestId"`
	HostID    string `xml:"HostId"`
}

type ec2Error struct {
	XMLName   xml.Name `xml:"Response"`
	Code      string   `xml:"Errors>Error>Code"`
	Message   string   `xml:"Errors>Error>Message"`
	RequestID string
}

type queryError struct {
	XMLName   xml.Name `xml:"ErrorResponse"`
	Type      string   `xml:"Error>Type"`
	Code      string   `xml:"Error>Code"`
	Message   string   `xml:"Error>Message"`
	RequestID string   `xml:"RequestId"`
}

// mustJSON encodes what cannot fail: maps of strings.
func mustJSON(v map[string]string) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// mustXML encodes what cannot fail: structs of strings.
func mustXML(v any) []byte {
	data, err := xml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append([]byte(xml.Header), data...)
}

// cborError encodes a map of two text strings (RFC 8949, major types 5 and 3),
// each with a length of two bytes.
func cborError(code, message string) []byte {
	const maxText = 1<<16 - 1
	out := []byte{0xa2}
	for _, s := range []string{"__type", code, "message", message} {
		s = strings.ToValidUTF8(s[:min(len(s), maxText)], "")
		out = append(out, 0x79)
		out = binary.BigEndian.AppendUint16(out, uint16(min(len(s), maxText)))
		out = append(out, s...)
	}
	return out
}
