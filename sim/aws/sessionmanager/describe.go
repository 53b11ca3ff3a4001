package sessionmanager

import (
	"slices"
	"strconv"
	"time"
)

type filter struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Values   []string
	ValueSet []string `json:"valueSet"`
}

type shownSession struct {
	SessionID    string `json:"SessionId"`
	Target       string
	Status       string
	StartDate    timestamp
	EndDate      *timestamp `json:",omitempty"`
	DocumentName string
	Owner        string
	Reason       string `json:",omitempty"`
	Details      string `json:",omitempty"`
	AccessType   string
}

type describeSessionsInput struct {
	State   string
	Filters []filter
	page
}

func (s *Service) describeSessions(c call, in describeSessionsInput) (any, error) {
	if in.State != "Active" && in.State != "History" {
		return nil, invalid("1 validation error detected: Value at 'state' failed to satisfy constraint: Member must satisfy enum value set: [Active, History]")
	}
	if err := s.authorize(c.Context(), c.caller, "ssm:DescribeSessions", "*"); err != nil {
		return nil, err
	}
	var shown []shownSession
	for _, session := range s.of("") {
		v := session.show()
		if session.region != c.caller.Region || (v.EndDate == nil) != (in.State == "Active") {
			continue
		}
		selected := true
		for _, f := range in.Filters {
			value, ok := map[string]string{"Target": v.Target, "Owner": v.Owner, "Status": v.Status, "SessionId": v.SessionID}[f.Key]
			if !ok {
				return nil, failure("InvalidFilterKey", "The simulator does not filter sessions by %q.", f.Key)
			}
			selected = selected && value == f.Value
		}
		if selected {
			shown = append(shown, v)
		}
	}
	slices.Reverse(shown) // the latest first
	list, next, err := cut(shown, in.page, 1, 200)
	return struct {
		Sessions  []shownSession
		NextToken string `json:",omitempty"`
	}{list, next}, err
}

func (s *session) show() shownSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := shownSession{
		SessionID: s.id, Target: s.machine.InstanceID, Status: string(s.status), StartDate: timestamp(s.started),
		DocumentName: s.document, Owner: s.owner, Reason: s.reason, Details: s.output, AccessType: "Standard",
	}
	if s.status.over() {
		ended := timestamp(s.ended)
		v.EndDate = &ended
	}
	return v
}

type shownMachine struct {
	InstanceID       string `json:"InstanceId"`
	PingStatus       string
	LastPingDateTime timestamp
	AgentVersion     string
	IsLatestVersion  bool
	PlatformType     string
	PlatformName     string `json:",omitempty"`
	PlatformVersion  string `json:",omitempty"`
	ResourceType     string
	IPAddress        string `json:",omitempty"`
	ComputerName     string `json:",omitempty"`
}

type describeMachinesInput struct {
	Filters []filter
	Old     []filter `json:"InstanceInformationFilterList"`
	page
}

func (s *Service) describeInstanceInformation(c call, in describeMachinesInput) (any, error) {
	if err := s.authorize(c.Context(), c.caller, "ssm:DescribeInstanceInformation", "*"); err != nil {
		return nil, err
	}
	var shown []shownMachine
	for _, m := range s.registered(c.caller.Region) {
		v := m.show()
		selected := true
		for _, f := range append(in.Filters, in.Old...) {
			value, ok := map[string]string{
				"InstanceIds": v.InstanceID, "PingStatus": v.PingStatus, "PlatformTypes": v.PlatformType,
				"AgentVersion": v.AgentVersion, "ResourceType": v.ResourceType,
			}[f.Key]
			if !ok {
				return nil, failure("InvalidFilterKey", "The simulator does not filter instances by %q.", f.Key)
			}
			selected = selected && slices.Contains(append(f.Values, f.ValueSet...), value)
		}
		if selected {
			shown = append(shown, v)
		}
	}
	list, next, err := cut(shown, in.page, 5, 50)
	return struct {
		InstanceInformationList []shownMachine
		NextToken               string `json:",omitempty"`
	}{list, next}, err
}

func (m registration) show() shownMachine {
	v := shownMachine{
		InstanceID: m.InstanceID, PingStatus: "Online", LastPingDateTime: timestamp(time.Now()), AgentVersion: m.AgentVersion,
		IsLatestVersion: m.AgentVersion == DefaultAgentVersion, PlatformType: "Linux", PlatformName: m.Platform, PlatformVersion: m.Version,
		ResourceType: "EC2Instance", ComputerName: m.Name,
	}
	if m.offline {
		v.PingStatus, v.LastPingDateTime = "ConnectionLost", timestamp(m.seen)
	}
	if m.InstanceID[0] == 'm' {
		v.ResourceType = "ManagedInstance"
	}
	if m.Address.IsValid() {
		v.IPAddress = m.Address.String()
	}
	return v
}

// page is which part of a list a call is for. The token is the number of what was
// shown before.
type page struct {
	MaxResults *int
	NextToken  string
}

func cut[T any](list []T, p page, least, most int) ([]T, string, error) {
	size := most
	if p.MaxResults != nil {
		size = *p.MaxResults
		if size < least || size > most {
			return nil, "", invalid("1 validation error detected: Value '%d' at 'maxResults' failed to satisfy constraint: Member must be between %d and %d", size, least, most)
		}
	}
	from := 0
	if p.NextToken != "" {
		var err error
		if from, err = strconv.Atoi(p.NextToken); err != nil || from < 0 || from > len(list) {
			return nil, "", failure("InvalidNextToken", "The specified token is not valid.")
		}
	}
	list = list[from:]
	next := ""
	if len(list) > size {
		list, next = list[:size], strconv.Itoa(from+size)
	}
	return append([]T{}, list...), next, nil
}
