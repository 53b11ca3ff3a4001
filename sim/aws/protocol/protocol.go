// Package protocol knows the wire protocols of AWS services as far as a
// gateway needs them: which one a request speaks, which operation it asks for,
// and how an error is written so that every SDK reads its code.
package protocol

import (
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// Protocol is one of AWS's wire protocols.
type Protocol string

// The protocols. S3 has an error shape of its own.
const (
	Query    Protocol = "query"     // form body, XML answer: STS, IAM, Auto Scaling, load balancing
	EC2      Protocol = "ec2"       // as Query, with other error elements
	JSON     Protocol = "json"      // X-Amz-Target: SSM, CloudWatch Logs, KMS
	RESTJSON Protocol = "rest-json" // EKS
	RESTXML  Protocol = "rest-xml"  // Route 53
	S3       Protocol = "s3"
	CBOR     Protocol = "cbor" // Smithy RPC v2: CloudWatch
)

// restXML lists the services whose REST protocol is XML; the others' is JSON.
var restXML = map[string]bool{"route53": true, "cloudfront": true}

// Of says which protocol a request to a service speaks. body is the request's.
func Of(service string, r *http.Request, body []byte) Protocol {
	switch {
	case service == "s3":
		return S3
	case service == "ec2":
		return EC2
	case strings.EqualFold(r.Header.Get("Smithy-Protocol"), "rpc-v2-cbor"):
		return CBOR
	case r.Header.Get("X-Amz-Target") != "":
		return JSON
	case form(r, body).Has("Action"):
		return Query
	case restXML[service]:
		return RESTXML
	}
	return RESTJSON
}

// Operation names the operation of an RPC request, or gives method and path
// of a REST one, whose names only its service knows.
func Operation(p Protocol, r *http.Request, body []byte) string {
	switch p {
	case Query, EC2:
		return form(r, body).Get("Action")
	case JSON:
		target := r.Header.Get("X-Amz-Target")
		return target[strings.LastIndexByte(target, '.')+1:]
	case CBOR:
		return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	case RESTJSON, RESTXML, S3:
	}
	return r.Method + " " + r.URL.Path
}

// form gives the parameters of a query request, which come in the body or the URL.
func form(r *http.Request, body []byte) url.Values {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && mediaType == "application/x-www-form-urlencoded" {
		if values, err := url.ParseQuery(string(body)); err == nil && values.Has("Action") {
			return values
		}
	}
	return r.URL.Query()
}
