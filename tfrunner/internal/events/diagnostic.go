package events

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// Summaries of diagnostics about the state's lock. terraform-exec has no typed
// errors for them, Terraform no codes.
const (
	lockSummary   = "Error acquiring the state lock"
	unlockSummary = "Error releasing the state lock"
)

// LockLeft says that Terraform could not release its own lock.
func (d Diagnostic) LockLeft() bool { return d.Summary == unlockSummary }

// LockUnsure says that Terraform could not take the lock, for another reason than
// that somebody holds it: it may have taken it without being told.
func (d Diagnostic) LockUnsure() bool {
	_, held := d.Lock()
	return d.Summary == lockSummary && !held
}

// Lock reads who holds the state's lock from the diagnostic that says that it
// is held; ok is false for all other diagnostics.
func (d Diagnostic) Lock() (lock api.StateLock, ok bool) {
	if d.Summary != lockSummary {
		return api.StateLock{}, false
	}
	for line := range strings.Lines(d.Detail) {
		key, value, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found {
			continue
		}
		value = strings.TrimSpace(value)
		switch key {
		case "ID":
			lock.ID = value
		case "Who":
			lock.Who = value
		case "Created":
			// time.Time's own String form, in UTC.
			if t, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", value); err == nil {
				lock.Created = t.UTC()
			}
		}
	}
	// Without an id it is no conflict: the lock object could not be written at all.
	return lock, lock.ID != ""
}

// Contract is the diagnostic as it is published.
func (d Diagnostic) Contract() *runcontract.Diagnostic {
	return &runcontract.Diagnostic{Summary: d.Summary, Detail: d.Detail, Address: d.Address}
}

// Bounds of a diagnostic's one-line form.
const (
	maxSentences     = 2
	maxSentenceBytes = 400
)

// Line is the diagnostic on one line: summary, address, and the first sentences of the detail.
func (d Diagnostic) Line() string {
	text := oneLine(d.Summary)
	if d.Address != "" {
		text += " (" + oneLine(d.Address) + ")"
	}
	if detail := firstSentences(oneLine(d.Detail)); detail != "" {
		text += ": " + detail
	}
	return text
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func firstSentences(s string) string {
	end := 0
	for range maxSentences {
		i := strings.Index(s[end:], ". ")
		if i < 0 {
			end = len(s)
			break
		}
		end += i + len(". ")
	}
	if end <= maxSentenceBytes {
		return strings.TrimSpace(s[:end])
	}
	end = maxSentenceBytes
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
