// Package sessionmanager fakes Session Manager, the part of AWS Systems Manager
// that connects a client to a port of an instance: StartSession and its kin, the
// websocket of the data channel, and the agent at the other end of it.
//
// A machine is registered with a Dialer, which is how its agent reaches its
// ports. A session has one agent, which lives until the session is over, and one
// link at a time, the websocket of its client. A client that loses its link asks
// for a new token (ResumeSession) and opens another one; the streams of both
// sides go on where they were.
//
// What a client does against the protocol is recorded (Violations) and ends the
// session with the reason. What goes wrong by itself, frames that are lost,
// doubled, late or broken, links that are cut, agents that are away, is asked
// for with a Fault.
//
// # What the likeness rests on
//
// The frame, the messages, the numbering, the acknowledgements and the resending
// are as AWS's open source agent and plugin have them: the agent's data channel
// and basic port session were read for the behaviour, and the tests of this
// package run against the plugin of the AWS CLI itself, built from its source,
// which passes data both ways, under loss and cuts too. The AWS CLI calls the
// operations. The frames in frame/testdata are put together by hand.
//
// No answer of the real service was captured. So these are guesses: the texts of
// refusals and of reasons, the code for a wrong parameter (ValidationException)
// and for too many sessions (ThrottlingException), how a link with a wrong token
// is closed (1008), that a link gets start_publication or pause_publication as
// its first frame, and the fields of a session's history.
//
// # What is not there
//
// Shell sessions, remote hosts, multiplexed connections (agents use them for port
// forwarding with clients from 1.1.70 on: tell this agent an older version, or be
// an agent up to 3.0.196), encryption (agents do not ask for it in port sessions
// anyway; a Fault can). This agent is faster than AWS's, which waits a millisecond
// after each kilobyte. It stops reading its port when 10 000 frames are not
// acknowledged, where AWS's goes on and no longer resends, and it acknowledges up
// to 10 000 frames that its port has not taken yet, where AWS's takes no others
// while it writes one.
package sessionmanager
