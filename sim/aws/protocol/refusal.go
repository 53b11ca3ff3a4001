package protocol

import (
	"errors"
	"net/http"

	"github.com/kubeopera/platform/sim/aws/sigv4"
)

// Refusal gives the error with which AWS answers a request in protocol p whose
// signature was not accepted: each protocol has its own codes and statuses.
func Refusal(p Protocol, err error) *Error {
	r := refusalOf(err)
	e := &Error{Status: http.StatusForbidden, Message: r.message}
	switch p {
	case S3:
		e.Code = r.s3
		if r.s3Status != 0 {
			e.Status = r.s3Status
		}
	case EC2:
		e.Code, e.Status = r.ec2, http.StatusUnauthorized
		if r.ec2 == "RequestExpired" || r.ec2 == "MissingParameter" {
			e.Status = http.StatusBadRequest
		}
	case JSON, CBOR:
		e.Code, e.Status = r.json, http.StatusBadRequest
	case RESTJSON:
		e.Code = r.json
	default:
		e.Code = r.query
		if r.query == "IncompleteSignature" {
			e.Status = http.StatusBadRequest
		}
	}
	return e
}

type refusal struct {
	query, ec2, json, s3 string
	s3Status             int // 0: 403
	message              string
}

func refusalOf(err error) refusal {
	const authFailure = "AuthFailure"
	switch {
	case errors.Is(err, sigv4.ErrUnsigned):
		return refusal{
			query: "MissingAuthenticationToken", ec2: "MissingParameter", json: "MissingAuthenticationTokenException",
			s3: "AccessDenied", message: "Request is missing Authentication Token",
		}
	case errors.Is(err, sigv4.ErrMalformed):
		return refusal{
			query: "IncompleteSignature", ec2: authFailure, json: "IncompleteSignatureException",
			s3: "AuthorizationHeaderMalformed", s3Status: http.StatusBadRequest,
			message: "The authorization header is malformed",
		}
	case errors.Is(err, sigv4.ErrUnknownKey):
		return refusal{
			query: "InvalidClientTokenId", ec2: authFailure, json: "UnrecognizedClientException",
			s3: "InvalidAccessKeyId", message: "The security token included in the request is invalid.",
		}
	case errors.Is(err, sigv4.ErrBadToken):
		return refusal{
			query: "InvalidClientTokenId", ec2: authFailure, json: "UnrecognizedClientException",
			s3: "InvalidToken", s3Status: http.StatusBadRequest,
			message: "The security token included in the request is invalid.",
		}
	case errors.Is(err, sigv4.ErrExpiredToken):
		return refusal{
			query: "ExpiredToken", ec2: "RequestExpired", json: "ExpiredTokenException",
			s3: "ExpiredToken", s3Status: http.StatusBadRequest,
			message: "The security token included in the request is expired",
		}
	case errors.Is(err, sigv4.ErrSkewed):
		return refusal{
			query: "SignatureDoesNotMatch", ec2: "RequestExpired", json: "InvalidSignatureException",
			s3: "RequestTimeTooSkewed", message: "Signature expired or not yet current: the request's time differs too much from the server's.",
		}
	case errors.Is(err, sigv4.ErrExpiredURL):
		return refusal{
			query: "SignatureDoesNotMatch", ec2: "RequestExpired", json: "InvalidSignatureException",
			s3: "AccessDenied", message: "Request has expired",
		}
	case errors.Is(err, sigv4.ErrPayload):
		return refusal{
			query: "SignatureDoesNotMatch", ec2: authFailure, json: "InvalidSignatureException",
			s3: "XAmzContentSHA256Mismatch", s3Status: http.StatusBadRequest,
			message: "The provided 'x-amz-content-sha256' header does not match what was computed.",
		}
	case errors.Is(err, sigv4.ErrUnsignedHeader):
		return refusal{
			query: "AccessDenied", ec2: authFailure, json: "AccessDeniedException",
			s3: "AccessDenied", message: "There were headers present in the request which were not signed",
		}
	}
	return refusal{
		query: "SignatureDoesNotMatch", ec2: authFailure, json: "InvalidSignatureException",
		s3:      "SignatureDoesNotMatch",
		message: "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method.",
	}
}
