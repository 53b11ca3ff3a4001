package emulator

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/kubeopera/platform/sim/aws/keyring"
)

// Settling lets settle finish what the emulator begins when Auto Scaling
// launches instances in a region, before the caller gets the answer to the call
// that made it do so.
func Settling(next http.Handler, settle func(ctx context.Context, region string) error, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := keyring.CallerFrom(r.Context())
		form, err := ReadForm(r)
		if err != nil || !launches(caller.Service, form.Get("Action")) {
			next.ServeHTTP(w, r)
			return
		}
		answer := NewAnswer()
		next.ServeHTTP(answer, r)
		if answer.Status() == http.StatusOK {
			// That the caller has gone does not stop what it began.
			ctx := context.WithoutCancel(r.Context())
			if err := settle(ctx, caller.Region); err != nil {
				log.WarnContext(ctx, "instances of auto scaling groups are not settled", "region", caller.Region, "error", err)
			}
		}
		answer.Send(w, answer.Body())
	})
}

// launches says whether a call may make Auto Scaling launch an instance: one
// that changes a group, or takes an instance from it.
func launches(service, action string) bool {
	return service == "autoscaling" && action != "" && !strings.HasPrefix(action, "Describe") ||
		service == "ec2" && action == "TerminateInstances"
}

// ReadForm reads the parameters of a call and leaves the body as it was. There
// are none if the call is no form.
func ReadForm(r *http.Request) (url.Values, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	SetBody(r, body)
	if form, err := url.ParseQuery(string(body)); err == nil && form.Has("Action") {
		return form, nil
	}
	return url.Values{}, nil
}

// SetBody gives a call another body.
func SetBody(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Del("Content-Length")
}
