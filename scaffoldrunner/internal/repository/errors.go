package repository

import (
	"fmt"
	"strings"
)

// BranchMissingError is for a repository that has branches, but not the one.
type BranchMissingError struct {
	Branch   string
	Branches []string // some of those that it has
}

// Error names the branches that there are.
func (e *BranchMissingError) Error() string {
	return fmt.Sprintf("the repository has no branch %s: it has %s", e.Branch, strings.Join(e.Branches, ", "))
}

// RacedError is for a push that came too late: the branch has moved.
type RacedError struct{ Reason string }

// Error says how git words it.
func (e *RacedError) Error() string { return "the branch has moved: " + e.Reason }

// RefusedError is for a push that the server does not take, and will not the next
// time: a hook, a protected branch, no right to write.
type RefusedError struct{ Words string } // the server's

// Error is what the server says.
func (e *RefusedError) Error() string { return "the server refused the push: " + e.Words }

// ContentError is for a repository whose files cannot be generated from.
type ContentError struct{ Reason string }

// Error says which file it is about.
func (e *ContentError) Error() string { return e.Reason }
