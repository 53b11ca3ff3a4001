package addresses_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/aws/addresses"
	"github.com/kubeopera/platform/sim/aws/keyring"
)

// account allocates the addresses that it is told, and has load balancers whose
// names are in the request.
type account struct {
	allocated []netip.Addr
	forms     []url.Values
}

func (a *account) list(context.Context, string) ([]netip.Addr, error) { return a.allocated, nil }

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	a.forms = append(a.forms, form)
	if ip, err := netip.ParseAddr(form.Get("Address")); err == nil {
		a.allocated = append(a.allocated, ip)
	}
	for _, name := range form["Name"] {
		_, _ = fmt.Fprintf(w, "<DNSName>%s-1.eu-central-1.elb.amazonaws.com</DNSName>", name)
	}
}

func newBlock(t *testing.T, prefix string, a *account) http.Handler {
	t.Helper()
	block, err := addresses.New(netip.MustParsePrefix(prefix), a.list)
	if err != nil {
		t.Fatal(err)
	}
	return block.Handler(a)
}

func call(t *testing.T, h http.Handler, service, form string) (int, string) {
	t.Helper()
	caller := keyring.Caller{Service: service, Region: "eu-central-1"}
	r := httptest.NewRequestWithContext(keyring.WithCaller(t.Context(), caller), http.MethodPost, "/", strings.NewReader(form))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestElasticIPsAreOfTheBlock(t *testing.T) {
	t.Parallel()
	a := &account{allocated: []netip.Addr{netip.MustParseAddr("127.83.7.1")}}
	h := newBlock(t, "127.83.7.0/29", a)
	for range 5 {
		if code, body := call(t, h, "ec2", "Action=AllocateAddress&Domain=vpc"); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
	}
	var got []string
	for _, form := range a.forms {
		got = append(got, form.Get("Address"))
	}
	if diff := cmp.Diff([]string{"127.83.7.2", "127.83.7.3", "127.83.7.4", "127.83.7.5", "127.83.7.6"}, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if code, body := call(t, h, "ec2", "Action=AllocateAddress"); code != http.StatusBadRequest || !strings.Contains(body, "AddressLimitExceeded") {
		t.Errorf("a full block: %d %s", code, body)
	}
	a.allocated = a.allocated[:3]
	call(t, h, "ec2", "Action=AllocateAddress")
	if got := a.forms[len(a.forms)-1].Get("Address"); got != "127.83.7.4" {
		t.Errorf("after addresses were given back: %s", got)
	}
	call(t, h, "ec2", "Action=AllocateAddress&Address=127.83.7.6")
	if got := a.forms[len(a.forms)-1].Get("Address"); got != "127.83.7.6" {
		t.Errorf("an address that the caller chose became %s", got)
	}
}

func TestLoadBalancersHaveAddressesForNames(t *testing.T) {
	t.Parallel()
	h := newBlock(t, "127.83.7.0/24", &account{})
	first := func(form string) string {
		t.Helper()
		_, body := call(t, h, "elasticloadbalancing", form)
		return body
	}
	if got := first("Action=CreateLoadBalancer&Name=one"); got != "<DNSName>127.83.7.1</DNSName>" {
		t.Errorf("created: %s", got)
	}
	if got := first("Action=DescribeLoadBalancers&Name=two&Name=one"); got != "<DNSName>127.83.7.2</DNSName><DNSName>127.83.7.1</DNSName>" {
		t.Errorf("described: %s", got)
	}
	first("Action=DeleteLoadBalancer&LoadBalancerArn=arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/one/0123")
	if got := first("Action=DescribeLoadBalancers&Name=one&Name=two"); got != "<DNSName>127.83.7.3</DNSName><DNSName>127.83.7.2</DNSName>" {
		t.Errorf("after one was deleted and made again: %s", got)
	}
	if _, body := call(t, h, "ec2", "Action=X&Name=one"); body != "<DNSName>one-1.eu-central-1.elb.amazonaws.com</DNSName>" {
		t.Errorf("another service's answer: %s", body)
	}
}

func TestBlockMustBeLoopback(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"10.0.0.0/24", "127.0.0.0/30", "::1/64", "128.0.0.0/8"} {
		if _, err := addresses.New(netip.MustParsePrefix(prefix), (&account{}).list); err == nil {
			t.Errorf("%s: no error", prefix)
		}
	}
}
