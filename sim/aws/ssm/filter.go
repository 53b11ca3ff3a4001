package ssm

import (
	"slices"
	"strings"
)

// filter is a condition on parameters; one of its values must meet it.
type filter struct {
	Key    string
	Option string
	Values []string
}

// options lists what Option may be, by Key; the first is meant by none.
var options = map[string][]string{
	"Name": {"Equals", "BeginsWith", "Contains"}, "Type": {"Equals", "BeginsWith"}, "KeyId": {"Equals", "BeginsWith"},
	"Path": {"OneLevel", "Recursive"}, "Tier": {"Equals", "BeginsWith"}, "DataType": {"Equals", "BeginsWith"},
	"Label": {"Equals", "BeginsWith"},
}

// check says why a filter cannot be used in a call that knows these keys. Tags
// can be used wherever names can.
func (f filter) check(keys ...string) error {
	if _, isTag := strings.CutPrefix(f.Key, "tag:"); isTag && slices.Contains(keys, "Name") {
		if f.Option != "" && f.Option != "Equals" && f.Option != "BeginsWith" {
			return failure("InvalidFilterOption", "The following filter option is not valid: %s. Valid options include: [Equals, BeginsWith].", f.Option)
		}
		return nil
	}
	if !slices.Contains(keys, f.Key) {
		return failure("InvalidFilterKey", "The following filter key is not valid: %s. Valid filter keys include: [%s].", f.Key, strings.Join(keys, ", "))
	}
	if f.Option != "" && !slices.Contains(options[f.Key], f.Option) {
		return failure("InvalidFilterOption", "The following filter option is not valid: %s. Valid options include: [%s].", f.Option, strings.Join(options[f.Key], ", "))
	}
	if len(f.Values) == 0 {
		return failure("InvalidFilterValue", "The following filter values are missing : null for filter key %s", f.Key)
	}
	return nil
}

// selected says whether a parameter meets all filters, which were checked.
func selected(p *parameter, filters []filter) bool {
	for _, f := range filters {
		if !f.selects(p) {
			return false
		}
	}
	return true
}

func (f filter) selects(p *parameter) bool {
	v := p.latest()
	if key, isTag := strings.CutPrefix(f.Key, "tag:"); isTag {
		value, has := p.tags[key]
		return has && (len(f.Values) == 0 || f.meets(value))
	}
	switch f.Key {
	case "Name":
		return f.meets(p.name)
	case "Type":
		return f.meets(p.typ)
	case "KeyId":
		return f.meets(v.keyID)
	case "Tier":
		return f.meets(v.tier)
	case "DataType":
		return f.meets(p.dataType)
	case "Label":
		return slices.ContainsFunc(v.labels, f.meets)
	case "Path":
		return slices.ContainsFunc(f.Values, func(path string) bool { return below(p.name, path, f.Option == "Recursive") })
	}
	return false
}

func (f filter) meets(value string) bool {
	return slices.ContainsFunc(f.Values, func(want string) bool {
		switch f.Option {
		case "BeginsWith":
			return strings.HasPrefix(value, want)
		case "Contains":
			return strings.Contains(value, want)
		}
		return value == want
	})
}
