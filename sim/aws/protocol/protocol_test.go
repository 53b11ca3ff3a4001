package protocol_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kubeopera/platform/sim/aws/protocol"
)

func TestProtocolAndOperation(t *testing.T) {
	t.Parallel()
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}}
	tests := []struct {
		name, service, method, url, body string
		header                           http.Header
		want                             protocol.Protocol
		operation                        string
	}{
		{name: "form", service: "iam", header: form, body: "Action=GetRole&RoleName=x", want: protocol.Query, operation: "GetRole"},
		{name: "presigned query", service: "sts", method: "GET", url: "/?Action=GetCallerIdentity", want: protocol.Query, operation: "GetCallerIdentity"},
		{name: "ec2", service: "ec2", header: form, body: "Action=CreateVpc", want: protocol.EC2, operation: "CreateVpc"},
		{name: "json", service: "ssm", header: http.Header{"X-Amz-Target": {"AmazonSSM.GetParameter"}}, body: "{}", want: protocol.JSON, operation: "GetParameter"},
		{name: "cbor", service: "monitoring", header: http.Header{"Smithy-Protocol": {"rpc-v2-cbor"}}, url: "/service/GraniteServiceVersion20100801/operation/PutMetricData", want: protocol.CBOR, operation: "PutMetricData"},
		{name: "rest json", service: "lambda", method: "GET", url: "/2015-03-31/functions", want: protocol.RESTJSON, operation: "GET /2015-03-31/functions"},
		{name: "rest xml", service: "route53", method: "GET", url: "/2013-04-01/hostedzone", want: protocol.RESTXML, operation: "GET /2013-04-01/hostedzone"},
		{name: "s3", service: "s3", method: "GET", url: "/bucket?Action=x", want: protocol.S3, operation: "GET /bucket"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			method, url := tt.method, tt.url
			if method == "" {
				method = http.MethodPost
			}
			if url == "" {
				url = "/"
			}
			r := httptest.NewRequestWithContext(t.Context(), method, url, strings.NewReader(tt.body))
			if tt.header != nil {
				r.Header = tt.header
			}
			p := protocol.Of(tt.service, r, []byte(tt.body))
			if p != tt.want || protocol.Operation(p, r, []byte(tt.body)) != tt.operation {
				t.Errorf("got %s %q, want %s %q", p, protocol.Operation(p, r, []byte(tt.body)), tt.want, tt.operation)
			}
		})
	}
}

// A long message must not break CBOR's lengths.
func TestCBORHasRoomForLongMessages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 23, 24, 255, 256, 70_000} {
		w := httptest.NewRecorder()
		protocol.WriteError(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), protocol.CBOR, "id",
			&protocol.Error{Status: 400, Code: "C", Message: strings.Repeat("m", n)})
		body := w.Body.Bytes()
		if body[0] != 0xa2 || strings.Count(string(body), "m") != min(n, 65_535)+1 { // one m more in "message"
			t.Errorf("%d: %d bytes", n, len(body))
		}
	}
}
