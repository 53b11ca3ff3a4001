// Package sts fakes the Security Token Service as far as it says who a caller
// is. The caller comes from the request's context, where the gateway put it
// after it had verified the signature.
package sts

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/xml"
	"net/http"
	"strings"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

const namespace = "https://sts.amazonaws.com/doc/2011-06-15/"

// Service answers STS calls.
type Service struct{}

// New returns the fake.
func New() *Service { return &Service{} }

func (*Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := w.Header().Get("X-Amzn-Requestid")
	// A GET, as in a presigned URL, has its parameters in the query; PostForm alone would miss them.
	if err := r.ParseForm(); err != nil {
		protocol.WriteError(w, r, protocol.Query, requestID,
			&protocol.Error{Status: http.StatusBadRequest, Code: "MalformedQueryString", Message: "the parameters cannot be read"})
		return
	}
	if action := r.Form.Get("Action"); action != "GetCallerIdentity" {
		protocol.WriteError(w, r, protocol.Query, requestID, &protocol.Error{
			Status: http.StatusBadRequest, Code: "InvalidAction", Message: "the simulator does not have the action " + action,
		})
		return
	}
	arn := keyring.CallerFrom(r.Context()).PrincipalARN
	w.Header().Set("Content-Type", "text/xml")
	answer := callerIdentity{Xmlns: namespace, ARN: arn, UserID: UserID(arn), Account: Account(arn), RequestID: requestID}
	_ = xml.NewEncoder(w).Encode(answer) // the client is gone: there is nobody to tell
}

type callerIdentity struct {
	XMLName   xml.Name `xml:"GetCallerIdentityResponse"`
	Xmlns     string   `xml:"xmlns,attr"`
	ARN       string   `xml:"GetCallerIdentityResult>Arn"`
	UserID    string   `xml:"GetCallerIdentityResult>UserId"`
	Account   string   `xml:"GetCallerIdentityResult>Account"`
	RequestID string   `xml:"ResponseMetadata>RequestId"`
}

// Account is the account id in an ARN.
func Account(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) < 6 {
		return ""
	}
	return parts[4]
}

// UserID is the unique id of a principal: AIDA… for a user, AROA…:session for
// an assumed role, the account for root. The same ARN always gives the same id.
func UserID(arn string) string {
	_, resource, _ := strings.Cut(arn, Account(arn)+":")
	switch {
	case strings.HasPrefix(resource, "assumed-role/"):
		session := resource[strings.LastIndexByte(resource, '/')+1:]
		return uniqueID("AROA", keyring.CanonicalARN(arn)) + ":" + session
	case strings.HasPrefix(resource, "role/"):
		return uniqueID("AROA", arn)
	case strings.HasPrefix(resource, "user/"):
		return uniqueID("AIDA", arn)
	}
	return Account(arn)
}

func uniqueID(prefix, arn string) string {
	sum := sha256.Sum256([]byte(arn))
	return prefix + base32.StdEncoding.EncodeToString(sum[:])[:17]
}
