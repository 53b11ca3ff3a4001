package runservice

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// Page selects what List gives.
type Page struct {
	Status        api.Status    // empty: all
	Environment   string        // empty: all
	Operation     api.Operation // empty: all
	CreatedAfter  time.Time     // zero: from the first
	CreatedBefore time.Time     // zero: to the newest
	Limit         int           // 1 to MaxPage
	Before        string        // only runs before the one of that id; empty: from the newest
}

// MaxPage is the most runs that List gives at once: the engine's own limit less
// the one that tells whether there is a next page.
const MaxPage = 100

var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// LabelRule says in words what a label is made of.
const LabelRule = "lower-case letters, digits and hyphens, and a letter or digit at both ends"

// IsLabel says whether a name is made like a DNS label, of whatever length.
func IsLabel(name string) bool { return label.MatchString(name) }

// List gives a page of runs, newest first, and the id of its last one if there
// are more.
func (c Cases[View]) List(ctx context.Context, page Page) (list []View, last string, err error) {
	if page.Environment != "" && !IsLabel(page.Environment) {
		return nil, "", Invalid("query.environment", "must be the name of an environment: %s", LabelRule)
	}
	found, err := c.runs.List(ctx, runs.Filter{
		Status: page.Status, Environment: page.Environment, Operation: page.Operation,
		CreatedAfter: page.CreatedAfter, CreatedBefore: page.CreatedBefore,
		Limit: page.Limit + 1, Before: runs.ID(page.Before),
	})
	if err != nil {
		return nil, "", fmt.Errorf("list runs: %w", err)
	}
	if len(found) > page.Limit {
		found = found[:page.Limit]
		last = string(found[page.Limit-1].ID)
	}
	list = []View{}
	for _, run := range found {
		view, err := c.view(run)
		if err != nil {
			return nil, "", err
		}
		list = append(list, view)
	}
	return list, last, nil
}
