package bootstrap

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/redact"
)

// pending is the value of a parameter that no node has written yet.
const pending = "PENDING"

// The words that begin a value of control_plane_joined/<i>.
const (
	joinJoining = "JOINING"
	joinJoined  = "JOINED"
	joinFailed  = "FAILED"
)

// The states in a value of bootstrap_status/<node>.
const (
	statusRunning = "RUNNING"
	statusDone    = "DONE"
	statusFailed  = "FAILED"
)

// report is one value that a node wrote. A value that cannot be read is like
// one that was not written: its zero value.
type report struct {
	state    string
	instance string
	at       time.Time // zero if the value gives none
	phase    string    // of a status
	message  string
}

// parseJoin reads a value of control_plane_joined/<i>.
func parseJoin(value string) report {
	part := strings.SplitN(value, ":", 4)
	for len(part) < 4 {
		part = append(part, "")
	}
	switch part[0] {
	case joinJoining, joinJoined, joinFailed:
		return report{state: part[0], instance: instance(part[1]), at: epoch(part[2]), message: clean(part[3])}
	}
	return report{}
}

// parseStatus reads a value of bootstrap_status/<node>.
func parseStatus(value string) report {
	part := strings.SplitN(value, "|", 5)
	for len(part) < 5 {
		part = append(part, "")
	}
	switch part[0] {
	case statusRunning, statusDone, statusFailed:
		return report{
			state: part[0], phase: strings.ReplaceAll(clean(part[1]), "_", " "),
			instance: instance(part[2]), at: epoch(part[3]), message: clean(part[4]),
		}
	}
	return report{}
}

// text is phase and message in one, without saying a thing twice.
func (r report) text() string {
	switch {
	case r.message == "" || r.message == r.phase:
		return r.phase
	case r.phase == "" || strings.HasPrefix(r.message, r.phase):
		return r.message
	}
	return r.phase + ": " + r.message
}

// of is the report if the instance wrote it, else none: it is a predecessor's,
// whose place the instance has taken. An empty id stands for any.
func (r report) of(instance string) report {
	if instance != "" && r.instance != "" && r.instance != instance {
		return report{}
	}
	return r
}

var instanceID = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

func instance(s string) string {
	if !instanceID.MatchString(s) {
		return ""
	}
	return s
}

func epoch(s string) time.Time {
	seconds, err := strconv.ParseInt(s, 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// messageLimit bounds a node's message in bytes: a sentence, not a log.
const messageLimit = 400

var (
	// bootstrapToken is kubeadm's form of a join token.
	bootstrapToken = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	// hexKey is a certificate key; with the word in front it is a digest, which is none.
	hexKey = regexp.MustCompile(`(sha256:)?\b[0-9a-fA-F]{64}\b`)
	// privateKey is a key in PEM, or as much of it as there is.
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)
	// longBase64 is what certificates and kubeconfigs are written in.
	longBase64 = regexp.MustCompile(`[A-Za-z0-9+/]{100,}=*`)
)

// clean makes a node's text fit to be shown. Nodes should write no secret; the
// output of a command that failed may hold one all the same.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	s = bootstrapToken.ReplaceAllString(s, redact.Marker)
	s = hexKey.ReplaceAllStringFunc(s, func(found string) string {
		if strings.HasPrefix(found, "sha256:") {
			return found
		}
		return redact.Marker
	})
	s = privateKey.ReplaceAllString(s, redact.Marker)
	s = longBase64.ReplaceAllString(s, redact.Marker)
	if len(s) <= messageLimit {
		return s
	}
	const more = "…"
	n := messageLimit - len(more)
	for n > 0 && s[n]&0xC0 == 0x80 { // not in the middle of a rune
		n--
	}
	return s[:n] + more
}
