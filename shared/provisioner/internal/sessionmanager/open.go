package sessionmanager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/coder/websocket"
)

// signingName is the service that the websocket's upgrade request is signed for.
const signingName = "ssmmessages"

// open connects to the session's data channel and presents the token. The same
// URL serves for as long as the session lives.
func (c *Client) open(ctx context.Context, conn *Conn, token string) (*websocket.Conn, error) {
	u, err := c.stream(conn.streamURL)
	if err != nil {
		return nil, &finalError{err}
	}
	header, err := c.sign(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("sign the request for the data channel: %w", err)
	}
	ws, response, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPClient: c.config.HTTPClient, HTTPHeader: header}) //nolint:bodyclose // Dial leaves a copy of a part of the body
	if err != nil {
		return nil, conn.refused(u, response, err)
	}
	first, err := json.Marshal(openMessage{
		MessageSchemaVersion: "1.0", RequestID: newID().String(), TokenValue: token,
		ClientID: newID().String(), ClientVersion: channelVersion,
	})
	if err == nil {
		err = ws.Write(ctx, websocket.MessageText, first)
	}
	if err != nil {
		_ = ws.CloseNow()
		return nil, fmt.Errorf("open the data channel: %w", err)
	}
	return ws, nil
}

// stream reads the URL of a data channel. No error may show it: it can be
// presigned.
func (c *Client) stream(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("service gave a data channel URL that is none")
	case u.Scheme == "wss", u.Scheme == "ws" && c.config.AllowClear:
		return u, nil
	}
	return nil, fmt.Errorf("service gave a data channel URL with scheme %q, not wss", u.Scheme)
}

// sign makes the headers of a signed upgrade request.
func (c *Client) sign(ctx context.Context, u *url.URL) (http.Header, error) {
	if u.Query().Has("X-Amz-Signature") {
		return nil, nil // presigned
	}
	credentials, err := c.config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	empty := sha256.Sum256(nil)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, request, hex.EncodeToString(empty[:]), signingName, c.config.Region, time.Now()); err != nil {
		return nil, err
	}
	return request.Header, nil
}

// refused explains why the upgrade failed. Before the session has begun a refusal
// is final; later it may be that of credentials which are being renewed.
func (c *Conn) refused(u *url.URL, response *http.Response, err error) error {
	if wrong, ok := errors.AsType[*url.Error](err); ok {
		err = wrong.Err // without the URL
	}
	err = fmt.Errorf("connect to %s: %w", u.Host, err)
	if response == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	denied := response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized
	if denied && c.in.expected == 0 {
		return &finalError{&AccessDeniedError{Target: c.target, Action: "ssmmessages:OpenDataChannel", Err: err}}
	}
	return err
}
