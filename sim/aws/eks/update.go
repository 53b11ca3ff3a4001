package eks

import (
	"encoding/json"
	"slices"
	"time"
)

type updateParam struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// update is a change that takes a while. What it changes is changed at once;
// only the status tells that it is not done.
type update struct {
	ID        string        `json:"id"`
	Status    string        `json:"status"`
	Type      string        `json:"type"`
	Params    []updateParam `json:"params"`
	CreatedAt timestamp     `json:"createdAt"`
	Errors    []issue       `json:"errors"`

	doneAt    time.Time
	nodegroup string // whose update it is; both empty: the cluster's
	addon     string
}

// startUpdate records an update. The caller holds the lock.
func (s *Service) startUpdate(cl *cluster, kind, nodegroup, addon string, params ...updateParam) map[string]any {
	now := s.cfg.Now()
	u := &update{
		ID: s.newID(), Type: kind, Params: params, CreatedAt: timestamp(now), Errors: []issue{},
		doneAt: now.Add(s.cfg.Delay), nodegroup: nodegroup, addon: addon,
	}
	cl.updates = append(cl.updates, u)
	return map[string]any{"update": u.view(now)}
}

func (u *update) view(now time.Time) update {
	view := *u
	view.Status = "Successful"
	if now.Before(u.doneAt) {
		view.Status = "InProgress"
	}
	return view
}

// updating says whether the cluster itself is being updated.
func (cl *cluster) updating(now time.Time) bool { return cl.updatingPart(now, "", "") }

func (cl *cluster) updatingPart(now time.Time, nodegroup, addon string) bool {
	return slices.ContainsFunc(cl.updates, func(u *update) bool {
		return u.nodegroup == nodegroup && u.addon == addon && now.Before(u.doneAt)
	})
}

func (s *Service) describeUpdate(c call, _ none) (any, error) {
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	for _, u := range cl.updates {
		if u.ID == c.PathValue("update") {
			return map[string]any{"update": u.view(s.cfg.Now())}, nil
		}
	}
	return nil, notFound("No update found for ID: %s", c.PathValue("update"))
}

func (s *Service) listUpdates(c call, _ none) (any, error) {
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	query := c.URL.Query()
	var ids []string
	for _, u := range cl.updates {
		if u.nodegroup == query.Get("nodegroupName") && u.addon == query.Get("addonName") {
			ids = append(ids, u.ID)
		}
	}
	items, next, err := page(c, ids)
	if err != nil {
		return nil, err
	}
	return map[string]any{"updateIds": items, "nextToken": next}, nil
}

// param shows a changed value in an update.
func param(kind string, value any) updateParam {
	if text, ok := value.(string); ok {
		return updateParam{Type: kind, Value: text}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return updateParam{Type: kind}
	}
	return updateParam{Type: kind, Value: string(text)}
}
