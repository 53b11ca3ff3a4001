package addresses

import (
	"errors"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"github.com/kubeopera/platform/sim/aws/emulator"
	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// dnsName is where the load balancing APIs have the name.
var dnsName = regexp.MustCompile(`<DNSName>([^<]+)</DNSName>`)

// Handler puts the addresses into calls to the emulator and its answers.
func (b *Block) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch keyring.CallerFrom(r.Context()).Service {
		case "ec2":
			b.serveEC2(w, r, next)
		case "elasticloadbalancing":
			b.serveBalancing(w, r, next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// serveEC2 chooses the address of an elastic IP, unless the caller does.
func (b *Block) serveEC2(w http.ResponseWriter, r *http.Request, next http.Handler) {
	form, err := emulator.ReadForm(r)
	if err != nil {
		refuse(w, r, protocol.EC2, err)
		return
	}
	if form.Get("Action") == "AllocateAddress" && !form.Has("Address") {
		ip, err := b.allocate(r.Context(), keyring.CallerFrom(r.Context()).Region)
		if err != nil {
			refuse(w, r, protocol.EC2, err)
			return
		}
		form.Set("Address", ip.String())
		emulator.SetBody(r, []byte(form.Encode()))
	}
	next.ServeHTTP(w, r)
}

func (b *Block) serveBalancing(w http.ResponseWriter, r *http.Request, next http.Handler) {
	form, err := emulator.ReadForm(r)
	if err != nil {
		refuse(w, r, protocol.Query, err)
		return
	}
	answer := emulator.NewAnswer()
	next.ServeHTTP(answer, r)
	if form.Get("Action") == "DeleteLoadBalancer" && answer.Status() == http.StatusOK {
		b.forget(balancerName(form.Get("LoadBalancerArn")), keyring.CallerFrom(r.Context()).Region)
	}
	var failed error
	body := dnsName.ReplaceAllFunc(answer.Body(), func(element []byte) []byte {
		var ip netip.Addr
		if ip, err = b.host(r.Context(), string(dnsName.FindSubmatch(element)[1])); err != nil {
			failed = err
			return element
		}
		return []byte("<DNSName>" + ip.String() + "</DNSName>")
	})
	if failed != nil {
		refuse(w, r, protocol.Query, failed)
		return
	}
	answer.Send(w, body)
}

// balancerName is the name in …:loadbalancer/net/<name>/<id>.
func balancerName(arn string) string {
	parts := strings.Split(arn, "/")
	if len(parts) < 4 {
		return ""
	}
	return parts[2]
}

func refuse(w http.ResponseWriter, r *http.Request, p protocol.Protocol, err error) {
	e := &protocol.Error{Status: http.StatusInternalServerError, Code: "InternalError", Message: err.Error()}
	if errors.Is(err, ErrExhausted) {
		e = &protocol.Error{Status: http.StatusBadRequest, Code: "AddressLimitExceeded", Message: "The maximum number of addresses has been reached."}
	}
	protocol.WriteError(w, r, p, "", e)
}
