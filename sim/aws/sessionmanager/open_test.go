package sessionmanager_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/coder/websocket"

	"github.com/kubeopera/platform/sim/aws/sessionmanager"
	"github.com/kubeopera/platform/sim/aws/sessionmanager/frame"
)

func TestUpgradeIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	s := f.start(t, nil)
	over := f.start(t, nil)
	if _, err := f.TerminateSession(t.Context(), &ssm.TerminateSessionInput{SessionId: over.SessionId}); err != nil {
		t.Fatal(err)
	}
	url := *s.StreamUrl
	forged := sign(t, url, "ssmmessages")
	forged.Set("Authorization", strings.Replace(forged.Get("Authorization"), "Signature=", "Signature=0", 1))
	tests := []struct {
		name   string
		url    string
		header http.Header
		status int
		rules  string
	}{
		{"unsigned", url, nil, http.StatusForbidden, "signature"},
		{"forged", url, forged, http.StatusForbidden, "signature"},
		{"signed for another service", url, sign(t, url, "ssm"), http.StatusForbidden, "signature"},
		{"no role", strings.Replace(url, "role=publish_subscribe&", "", 1), sign(t, strings.Replace(url, "role=publish_subscribe&", "", 1), "ssmmessages"), http.StatusBadRequest, ""},
		{"unknown session", strings.Replace(url, "platform-", "platform-0", 1), sign(t, strings.Replace(url, "platform-", "platform-0", 1), "ssmmessages"), http.StatusNotFound, ""},
		{"a session that is over", *over.StreamUrl, sign(t, *over.StreamUrl, "ssmmessages"), http.StatusGone, ""},
	}
	for _, tt := range tests {
		f.service.ClearViolations()
		_, status, err := dial(t, tt.url, tt.header)
		if err == nil || status != tt.status {
			t.Errorf("%s: %d, %v", tt.name, status, err)
		}
		if got := f.rules(); got != tt.rules {
			t.Errorf("%s: broken rules %q", tt.name, got)
		}
	}
}

func TestOpeningIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		kind   websocket.MessageType
		change func(map[string]string)
		reason string
		rule   sessionmanager.Rule
	}{
		{"a binary message", websocket.MessageBinary, nil, "not text", sessionmanager.RuleOpen},
		{"another schema", websocket.MessageText, func(m map[string]string) { m["MessageSchemaVersion"] = "2.0" }, "MessageSchemaVersion", sessionmanager.RuleOpen},
		{"a short request id", websocket.MessageText, func(m map[string]string) { m["RequestId"] = "1" }, "RequestId", sessionmanager.RuleOpen},
		{"no client id", websocket.MessageText, func(m map[string]string) { m["ClientId"] = "" }, "ClientId", sessionmanager.RuleOpen},
		{"a client that is too old", websocket.MessageText, func(m map[string]string) { m["ClientVersion"] = "1.2.763.9" }, "older than 1.2.764.0", sessionmanager.RuleVersion},
		{"no client version", websocket.MessageText, func(m map[string]string) { m["ClientVersion"] = "new" }, "older than 1.2.764.0", sessionmanager.RuleVersion},
		{"another token", websocket.MessageText, func(m map[string]string) { m["TokenValue"] = "guess" }, "token", sessionmanager.RuleToken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil)
			s := f.start(t, nil)
			conn, _, err := dial(t, *s.StreamUrl, sign(t, *s.StreamUrl, "ssmmessages"))
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Write(t.Context(), tt.kind, opening(*s.TokenValue, tt.change)); err != nil {
				t.Fatal(err)
			}
			_, _, err = conn.Read(t.Context())
			if websocket.CloseStatus(err) != websocket.StatusPolicyViolation || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("closed with %v", err)
			}
			if strings.Contains(err.Error(), *s.TokenValue) {
				t.Error("the token is in the reason")
			}
			if got := f.rules(); got != string(tt.rule) {
				t.Errorf("broken rules: %s", got)
			}
			// The token is as good as before.
			open(t, *s.StreamUrl, *s.TokenValue).handshake()
		})
	}
}

func TestTokenOpensOneLink(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	s := f.start(t, nil)
	open(t, *s.StreamUrl, *s.TokenValue).handshake()
	second := open(t, *s.StreamUrl, *s.TokenValue)
	if _, status := second.farewell(); status != websocket.StatusPolicyViolation {
		t.Errorf("the second link is closed with %d", status)
	}
	if f.rules() != "token" {
		t.Errorf("broken rules: %s", f.rules())
	}
	var tokens []string
	for range 2 {
		out, err := f.ResumeSession(t.Context(), &ssm.ResumeSessionInput{SessionId: s.SessionId})
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, *out.TokenValue)
	}
	if _, status := open(t, *s.StreamUrl, tokens[0]).farewell(); status != websocket.StatusPolicyViolation {
		t.Errorf("a token that another one replaced: closed with %d", status)
	}
	if got, err := open(t, *s.StreamUrl, tokens[1]).read(); err != nil || got.Type != frame.Start {
		t.Errorf("the last token: %+v, %v", got, err)
	}
}
