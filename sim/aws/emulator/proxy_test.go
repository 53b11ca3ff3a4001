package emulator_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/aws/emulator"
	"github.com/kubeopera/platform/sim/aws/keyring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call sends a form through a proxy to an emulator that gives the answer.
func call(t *testing.T, answer http.HandlerFunc, service string) *httptest.ResponseRecorder {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := emulator.NewProxy(target, slog.New(slog.DiscardHandler))
	t.Cleanup(proxy.Close)
	r := httptest.NewRequestWithContext(keyring.WithCaller(t.Context(), keyring.Caller{Service: service, Region: "eu-central-1"}), http.MethodPost, "http://gateway:4566/", strings.NewReader("Action=X"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, r)
	return w
}

func TestProxyPassesCallsOn(t *testing.T) {
	t.Parallel()
	w := call(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "Action=X" || r.Host != "gateway:4566" {
			t.Errorf("host %s, body %q, %v", r.Host, body, err)
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("answer"))
	}, "ec2")
	if w.Code != http.StatusTeapot || w.Body.String() != "answer" {
		t.Errorf("got %d %q", w.Code, w.Body)
	}
}

func TestProxyTellsThatTheEmulatorIsGone(t *testing.T) {
	t.Parallel()
	for service, want := range map[string]string{
		"ec2": "<Errors><Error><Code>ServiceUnavailable</Code>", "iam": "<Error><Type>Receiver</Type><Code>ServiceUnavailable</Code>",
	} {
		w := call(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, service)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", service, w.Code, w.Body)
		}
	}
}

func TestLaunchTemplateLosesTagsThatAreNotItsData(t *testing.T) {
	t.Parallel()
	const head = `<DescribeLaunchTemplateVersionsResponse xmlns="x"><tagSpecificationSet>`
	const instance = `<item><resourceType>instance</resourceType><tagSet><item><key>a</key><value>b</value></item></tagSet></item>`
	const own = `<item><resourceType>launch-template</resourceType><tagSet><item><key>k</key><value>v</value></item></tagSet></item>`
	const tail = `</tagSpecificationSet></DescribeLaunchTemplateVersionsResponse>`
	for _, in := range []string{head + own + instance + tail, head + instance + own + tail, head + instance + tail} {
		w := call(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(in)) }, "ec2")
		if got := w.Body.String(); got != head+instance+tail {
			t.Errorf("got %s", got)
		}
	}
	other := `<DescribeOtherResponse>` + own + `</DescribeOtherResponse>`
	if w := call(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(other)) }, "ec2"); w.Body.String() != other {
		t.Errorf("another answer was changed: %s", w.Body)
	}
}

func TestInstancesHaveTheirRegionsDomain(t *testing.T) {
	t.Parallel()
	const other = `<dnsName>x.ec2.internal</dnsName>`
	w := call(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`<DescribeInstancesResponse><privateDnsName>ip-10-0-1-4.ec2.internal</privateDnsName>` + other + `</DescribeInstancesResponse>`))
	}, "ec2")
	if want := `<DescribeInstancesResponse><privateDnsName>ip-10-0-1-4.eu-central-1.compute.internal</privateDnsName>` + other + `</DescribeInstancesResponse>`; w.Body.String() != want {
		t.Errorf("got %s", w.Body)
	}
}
