package sessionmanager_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/aws/sessionmanager"
	simssm "github.com/kubeopera/platform/sim/aws/ssm"
)

func TestStartSession(t *testing.T) {
	t.Parallel()
	parameters := func(document, key string, values ...string) func(*ssm.StartSessionInput) {
		return func(in *ssm.StartSessionInput) {
			in.DocumentName, in.Parameters = &document, map[string][]string{key: values}
		}
	}
	tests := []struct {
		name   string
		change func(*ssm.StartSessionInput)
		want   string
	}{
		{"sshd", nil, "ok"},
		{"port forwarding", forwarding, "ok"},
		{"the document's port", func(in *ssm.StartSessionInput) { in.Parameters = nil }, "ok"},
		{"a local port", parameters("AWS-StartPortForwardingSession", "localPortNumber", "0"), "ok"},
		{"an unknown target", func(in *ssm.StartSessionInput) { in.Target = new("i-0123456789abcdef1") }, "TargetNotConnected"},
		{"no instance's id", func(in *ssm.StartSessionInput) { in.Target = new("machine") }, "TargetNotConnected"},
		{"a long target", func(in *ssm.StartSessionInput) { in.Target = new(strings.Repeat("i", 401)) }, "ValidationException"},
		{"a long reason", func(in *ssm.StartSessionInput) { in.Reason = new(strings.Repeat("r", 257)) }, "ValidationException"},
		{"a shell", func(in *ssm.StartSessionInput) { in.DocumentName, in.Parameters = nil, nil }, "InvalidDocument"},
		{"an unknown document", parameters("AWS-StartTelnetSession", "portNumber", "23"), "InvalidDocument"},
		{"an unknown parameter", parameters("AWS-StartSSHSession", "localPortNumber", "22"), "ValidationException"},
		{"two ports", parameters("AWS-StartSSHSession", "portNumber", "22", "23"), "ValidationException"},
		{"no port", parameters("AWS-StartSSHSession", "portNumber"), "ValidationException"},
		{"port 0", parameters("AWS-StartSSHSession", "portNumber", "0"), "ValidationException"},
		{"port 65536", parameters("AWS-StartSSHSession", "portNumber", "65536"), "ValidationException"},
		{"a port by name", parameters("AWS-StartSSHSession", "portNumber", "ssh"), "ValidationException"},
		{"a port with a command", parameters("AWS-StartSSHSession", "portNumber", "22;id"), "ValidationException"},
	}
	f := setup(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := f.StartSession(t.Context(), input(tt.change))
			if got := code(t, err); got != tt.want {
				t.Fatalf("%s, want %s", got, tt.want)
			}
			if err != nil {
				return
			}
			want := strings.Replace(f.url, "http:", "ws:", 1) + "/v1/data-channel/" + *out.SessionId + "?"
			if !strings.HasPrefix(*out.StreamUrl, want) || !strings.HasPrefix(*out.SessionId, "platform-") || len(*out.TokenValue) < 100 {
				t.Errorf("got %s, %s", *out.SessionId, *out.StreamUrl)
			}
		})
	}
}

func TestSessionsAreLimited(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *sessionmanager.Config) { c.MaxSessions = 2 })
	first := f.start(t, nil)
	f.start(t, nil)
	if _, err := f.StartSession(t.Context(), input(nil)); code(t, err) != "ThrottlingException" {
		t.Errorf("a third session: %v", err)
	}
	if _, err := f.TerminateSession(t.Context(), &ssm.TerminateSessionInput{SessionId: first.SessionId}); err != nil {
		t.Fatal(err)
	}
	f.start(t, nil)
}

func TestSessionsAreNamed(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	unknown := new("platform-unknown")
	_, err := f.ResumeSession(t.Context(), &ssm.ResumeSessionInput{SessionId: unknown})
	if code(t, err) != "DoesNotExistException" {
		t.Errorf("resume: %v", err)
	}
	_, err = f.TerminateSession(t.Context(), &ssm.TerminateSessionInput{SessionId: unknown})
	if code(t, err) != "DoesNotExistException" {
		t.Errorf("terminate: %v", err)
	}
}

func TestDescribeSessions(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	first := f.start(t, func(in *ssm.StartSessionInput) { in.Reason = new("maintenance") })
	second := f.start(t, nil)
	if _, err := f.TerminateSession(t.Context(), &ssm.TerminateSessionInput{SessionId: second.SessionId}); err != nil {
		t.Fatal(err)
	}
	list := func(state types.SessionState, filters ...types.SessionFilter) []string {
		t.Helper()
		out, err := f.DescribeSessions(t.Context(), &ssm.DescribeSessionsInput{State: state, Filters: filters})
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{}
		for _, s := range out.Sessions {
			ids = append(ids, *s.SessionId+" "+string(s.Status)+" "+*s.Owner)
		}
		return ids
	}
	target := func(id string) types.SessionFilter {
		return types.SessionFilter{Key: types.SessionFilterKeyTargetId, Value: &id}
	}
	if diff := cmp.Diff([]string{*first.SessionId + " Connecting " + userARN}, list(types.SessionStateActive, target(instance))); diff != "" {
		t.Errorf("active (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{*second.SessionId + " Terminated " + userARN}, list(types.SessionStateHistory)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{}, list(types.SessionStateActive, target("i-0123456789abcdef1"))); diff != "" {
		t.Errorf("of another target (-want +got):\n%s", diff)
	}
}

func TestDescribeInstanceInformation(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	dial := func(context.Context, string, int) (net.Conn, error) { return nil, errors.New("not dialled here") }
	for _, m := range []sessionmanager.Machine{
		{InstanceID: "i-0123456789abcdef1", Region: "us-east-1", Dial: dial},
		{InstanceID: "mi-0123456789abcdef2", Address: netip.MustParseAddr("10.0.0.2"), Dial: dial},
	} {
		if err := f.service.Register(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []sessionmanager.Machine{{InstanceID: "machine", Dial: dial}, {InstanceID: instance}} {
		if err := f.service.Register(bad); err == nil {
			t.Errorf("%+v is registered", bad)
		}
	}
	if err := f.service.SetOnline("mi-0123456789abcdef2", false); err != nil {
		t.Fatal(err)
	}
	if err := f.service.SetOnline("i-0000000000000000", false); !errors.Is(err, sessionmanager.ErrNoMachine) {
		t.Errorf("an unknown machine: %v", err)
	}
	list := func(in *ssm.DescribeInstanceInformationInput) string {
		t.Helper()
		out, err := f.DescribeInstanceInformation(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, i := range out.InstanceInformationList {
			all = append(all, *i.InstanceId+" "+string(i.PingStatus)+" "+string(i.ResourceType))
		}
		return strings.Join(all, ", ")
	}
	const first, second = instance + " Online EC2Instance", "mi-0123456789abcdef2 ConnectionLost ManagedInstance"
	if got := list(&ssm.DescribeInstanceInformationInput{}); got != first+", "+second {
		t.Errorf("all: %s", got)
	}
	if got := list(&ssm.DescribeInstanceInformationInput{Filters: []types.InstanceInformationStringFilter{
		{Key: new("InstanceIds"), Values: []string{instance, "i-0000000000000000"}},
	}}); got != first {
		t.Errorf("by id: %s", got)
	}
	if got := list(&ssm.DescribeInstanceInformationInput{InstanceInformationFilterList: []types.InstanceInformationFilter{
		{Key: types.InstanceInformationFilterKeyPingStatus, ValueSet: []string{"ConnectionLost"}},
	}}); got != second {
		t.Errorf("by ping status: %s", got)
	}
}

// denied is an authorizer that refuses one action.
type denied string

func (d denied) Authorize(_ context.Context, a simssm.Access) (bool, error) {
	return a.Action != string(d), nil
}

func TestActionsAreAuthorized(t *testing.T) {
	t.Parallel()
	tests := []struct {
		action, resource string
		do               func(t *testing.T, f *fixture) error
	}{
		{"ssm:StartSession", "arn:aws:ec2:eu-central-1:123456789012:instance/" + instance, func(t *testing.T, f *fixture) error {
			t.Helper()
			_, err := f.StartSession(t.Context(), input(nil))
			return err
		}},
		{"ssm:ResumeSession", ":session/platform-", func(t *testing.T, f *fixture) error {
			t.Helper()
			_, err := f.ResumeSession(t.Context(), &ssm.ResumeSessionInput{SessionId: f.start(t, nil).SessionId})
			return err
		}},
		{"ssm:TerminateSession", ":session/platform-", func(t *testing.T, f *fixture) error {
			t.Helper()
			_, err := f.TerminateSession(t.Context(), &ssm.TerminateSessionInput{SessionId: f.start(t, nil).SessionId})
			return err
		}},
	}
	for _, tt := range tests {
		f := setup(t, func(c *sessionmanager.Config) { c.Authorizer = denied(tt.action) })
		err := tt.do(t, f)
		if code(t, err) != "AccessDeniedException" || !strings.Contains(err.Error(), tt.resource) {
			t.Errorf("%s: %v", tt.action, err)
		}
	}
	f := setup(t, func(c *sessionmanager.Config) { c.Authorizer = denied("ssmmessages:OpenDataChannel") })
	s := f.start(t, nil)
	if _, status, err := dial(t, *s.StreamUrl, sign(t, *s.StreamUrl, "ssmmessages")); err == nil || status != http.StatusForbidden {
		t.Errorf("the channel is opened: %v", err)
	}
}

func TestFaultsAreValidated(t *testing.T) {
	t.Parallel()
	for _, bad := range []sessionmanager.Fault{
		{},
		{Kind: "burn"},
		{Kind: sessionmanager.KindDelay},
		{Kind: sessionmanager.KindLose, Delay: 1},
		{Kind: sessionmanager.KindLose, Direction: "up"},
		{Kind: sessionmanager.KindLose, Nth: -1},
		{Kind: sessionmanager.KindLose, Seed: 1},
		{Kind: sessionmanager.KindSlow, Delay: 1},
		{Kind: sessionmanager.KindOffline, Direction: sessionmanager.ToAgent},
	} {
		var faults sessionmanager.Faults
		if _, err := faults.Add(bad); !errors.Is(err, sessionmanager.ErrInvalidFault) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	f := setup(t, nil)
	if _, err := f.service.Faults().Add(sessionmanager.Fault{Kind: sessionmanager.KindOffline, Target: instance}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.StartSession(t.Context(), input(nil)); code(t, err) != "TargetNotConnected" {
		t.Errorf("StartSession: %v", err)
	}
	f.start(t, nil)
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	s := f.start(t, nil)
	r := open(t, *s.StreamUrl, *s.TokenValue)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	call := func(method, path, body string, want int) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, f.url+sessionmanager.AdminPath+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer bytes.Buffer
		if _, err := answer.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Fatalf("%s %s: %d, %s", method, path, resp.StatusCode, answer.String())
		}
		return answer.String()
	}
	eventually(t, "the link", func() bool { return strings.Contains(call("GET", "sessions", "", 200), `"links":1`) })
	call("POST", "faults", `{"kind":"lose","every":10,"id":"mine"}`, 201)
	call("POST", "faults", `{"kind":"lose","every":10,"id":"mine"}`, 422)
	call("POST", "faults", `{"sort":"lose"}`, 400)
	var list []sessionmanager.FaultState
	if err := json.Unmarshal([]byte(call("GET", "faults", "", 200)), &list); err != nil || len(list) != 1 || list[0].ID != "mine" {
		t.Errorf("faults: %+v, %v", list, err)
	}
	call("DELETE", "faults/mine", "", 204)
	call("DELETE", "faults/mine", "", 404)
	call("DELETE", "faults", "", 204)
	call("GET", "violations", "", 200)
	call("DELETE", "violations", "", 204)
	call("POST", "instances/"+instance+"/offline", "", 200)
	call("POST", "instances/"+instance+"/online", "", 200)
	call("POST", "instances/i-0000000000000000/online", "", 404)
	call("POST", "instances/"+instance+"/explode", "", 404)
	if got := call("POST", "instances/"+instance+"/bye", "", 200); got != "{\"links\":1}\n" {
		t.Errorf("bye: %s", got)
	}
	if _, status := r.farewell(); status != 1000 {
		t.Errorf("closed with %d", status)
	}
	call("POST", "instances/"+instance+"/cut", "", 200)
	call("POST", "instances/"+instance+"/end?reason=enough", "", 200)
	if got := f.service.Sessions()[0]; got.Output != "enough" || got.Status != "Terminated" {
		t.Errorf("after the end: %+v", got)
	}
}
