// Package sessionmanager connects to a port of an EC2 instance through AWS
// Systems Manager Session Manager, without the AWS CLI, a plugin or a local
// port.
//
// A Client starts a session by the API and speaks the session's data channel, a
// protocol of numbered and acknowledged messages over a websocket, itself. What
// Dial gives is a Conn, a net.Conn to the port on the instance. The agent on the
// instance is the peer; the service between the two forwards messages and ends
// sessions.
//
// The session runs the document AWS-StartSSHSession, the one whose port session
// is a single raw stream of bytes: one session is one TCP connection of the
// agent's. Its protocol has no half-close: when the instance closes, Read gives
// what has arrived, then io.EOF, and Write an error; Close delivers what has been
// written, as long as the peer takes it, and ends the session.
//
// A Conn outlives its websocket: the service closes each about hourly, and
// networks do it as they like. The session is resumed, and what was not
// acknowledged is sent again. Flow control is by acknowledgement: a Conn that is
// not read acknowledges no more, and Write blocks while Window messages are not
// acknowledged.
//
// Errors to branch on are types: TargetNotConnectedError, NotOnlineError,
// AccessDeniedError, EncryptionRequiredError, PortError, ClosedError, LostError
// and ExpiredError.
//
// Sessions that the account's preferences encrypt with a KMS key are refused.
//
// The protocol's facts are those of the open source agent and plugin. They
// differ from this package in three places, each safe with either: a message is
// also sent again once three later ones have been acknowledged, not by timer
// only; nothing unacknowledged is ever dropped; and there is no pause between
// messages.
package sessionmanager
