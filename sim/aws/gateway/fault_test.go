package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/gateway"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

func reader(s string) io.Reader { return strings.NewReader(s) }

func contains(b []byte, s string) bool { return bytes.Contains(b, []byte(s)) }

func identify(ctx context.Context, cfg aws.Config) error {
	_, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, nil)
	return err
}

func add(t *testing.T, f *fixture, fault faults.Fault) string {
	t.Helper()
	id, err := f.gateway.Faults().Add(fault)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestErrorFaultActsOnTheNthCall(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := add(t, f, faults.Fault{
		Service: "sts", Operation: "GetCallerIdentity", Nth: 2, Times: 2, Kind: faults.KindError,
		Error: &protocol.Error{Status: 403, Code: "AccessDenied", Message: "not today"},
	})
	cfg := f.config(keyID, secret, "")
	var got []string
	for range 4 {
		code := "ok"
		if err := identify(t.Context(), cfg); err != nil {
			code = answerOf(t, err).code
		}
		got = append(got, code)
	}
	if diff := cmp.Diff([]string{"ok", "AccessDenied", "AccessDenied", "ok"}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	calls := f.gateway.Calls(gateway.CallFilter{Service: "sts"})
	if len(calls) != 4 || calls[1].Fault != id || calls[1].ErrorCode != "AccessDenied" || calls[1].Status != 403 || calls[3].Fault != "" {
		t.Errorf("calls: %+v", calls)
	}
}

func TestErrorFaultHasTheShapeOfTheService(t *testing.T) {
	t.Parallel()
	f := setup(t)
	add(t, f, faults.Fault{
		Service: "ec2", Operation: "DescribeVpcs", Times: faults.Always, Kind: faults.KindError,
		Error: &protocol.Error{Status: 503, Code: "RequestLimitExceeded", Message: "slow down"},
	})
	_, err := ec2.NewFromConfig(f.config(keyID, secret, "")).DescribeVpcs(t.Context(), nil)
	if got := answerOf(t, err); got != (answer{"RequestLimitExceeded", 503}) {
		t.Errorf("got %v", got)
	}
	if n := f.fallback.Load(); n != 0 {
		t.Errorf("the call was carried out %d times", n)
	}
}

func TestDropAndLostAnswerDifferInWhatWasDone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind faults.Kind
		done int64
	}{
		{kind: faults.KindDrop, done: 0},
		{kind: faults.KindLostAnswer, done: 1},
	}
	for _, tt := range tests {
		t.Run(string(tt.kind), func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			add(t, f, faults.Fault{Service: "ec2", Kind: tt.kind, Times: faults.Always})
			_, err := ec2.NewFromConfig(f.config(keyID, secret, "")).CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: new("10.0.0.0/16")})
			if err == nil || !strings.Contains(err.Error(), "EOF") {
				t.Errorf("got %v, want a connection that ends", err)
			}
			if n := f.fallback.Load(); n != tt.done {
				t.Errorf("carried out %d times, want %d", n, tt.done)
			}
		})
	}
}

func TestSDKRetriesALostAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	add(t, f, faults.Fault{Operation: "GetCallerIdentity", Kind: faults.KindLostAnswer})
	cfg := f.config(keyID, secret, "")
	cfg.Retryer = nil
	if err := identify(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if n := len(f.gateway.Calls(gateway.CallFilter{Operation: "GetCallerIdentity"})); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}

func TestDelayEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	f := setup(t)
	add(t, f, faults.Fault{Kind: faults.KindDelay, Delay: faults.Duration(time.Hour)})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := identify(ctx, f.config(keyID, secret, "")); err == nil {
		t.Error("an hour has passed")
	}
	// Server.Close in setup's clean-up waits for the handler: it has to be gone.
}

func TestDelayGoesBeforeAnotherFault(t *testing.T) {
	t.Parallel()
	f := setup(t)
	add(t, f, faults.Fault{Kind: faults.KindError, Error: &protocol.Error{Status: 500, Code: "InternalFailure"}})
	add(t, f, faults.Fault{Kind: faults.KindDelay, Delay: faults.Duration(time.Millisecond)})
	if err := identify(t.Context(), f.config(keyID, secret, "")); answerOf(t, err).code != "InternalFailure" {
		t.Errorf("got %v", err)
	}
}

func TestAdminEndpoint(t *testing.T) {
	t.Parallel()
	f := setup(t)
	do := func(method, path, body string) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, reader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		out, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, out
	}
	fault := `{"service":"sts","operation":"GetCallerIdentity","kind":"error","error":{"status":400,"code":"Throttling","message":"m"},"delay":"1s"}`
	if status, body := do(http.MethodPost, "/_sim/faults", fault); status != http.StatusCreated || !contains(body, "fault-1") {
		t.Fatalf("add: %d %s", status, body)
	}
	for _, bad := range []string{`{`, `{"kind":"error"}`, `{"kind":"delay"}`, `{"kind":"x"}`, `{"kind":"drop","nonsense":1}`} {
		if status, body := do(http.MethodPost, "/_sim/faults", bad); status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
			t.Errorf("add %s: %d %s", bad, status, body)
		}
	}
	if err := identify(t.Context(), f.config(keyID, secret, "")); answerOf(t, err).code != "Throttling" {
		t.Errorf("got %v", err)
	}
	_, body := do(http.MethodGet, "/_sim/faults", "")
	var states []faults.State
	if err := json.Unmarshal(body, &states); err != nil || len(states) != 1 || states[0].Fired != 1 {
		t.Errorf("list: %s %v", body, err)
	}
	_, body = do(http.MethodGet, "/_sim/calls?service=sts&operation=GetCallerIdentity", "")
	var calls []gateway.Call
	if err := json.Unmarshal(body, &calls); err != nil || len(calls) != 1 || calls[0].AccessKeyID != keyID || calls[0].Status != 400 {
		t.Errorf("calls: %s %v", body, err)
	}
	if status, _ := do(http.MethodDelete, "/_sim/faults/fault-1", ""); status != http.StatusNoContent {
		t.Errorf("remove: %d", status)
	}
	if status, _ := do(http.MethodDelete, "/_sim/faults/fault-1", ""); status != http.StatusNotFound {
		t.Errorf("remove again: %d", status)
	}
	if status, _ := do(http.MethodDelete, "/_sim/calls", ""); status != http.StatusNoContent {
		t.Errorf("clear calls: %d", status)
	}
	if n := len(f.gateway.Calls(gateway.CallFilter{})); n != 0 {
		t.Errorf("%d calls after clearing", n)
	}
	if status, _ := do(http.MethodGet, "/_sim/health", ""); status != http.StatusOK {
		t.Errorf("health: %d", status)
	}
}
