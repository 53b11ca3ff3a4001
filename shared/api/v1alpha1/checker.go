package v1alpha1

import (
	"maps"
	"slices"
	"strconv"
)

// A checker collects what is wrong.
type checker struct{ errs FieldErrors }

// check holds a text against a rule; an empty one passes.
func (c *checker) check(field, value string, r rule) {
	if value != "" && !r.ok(value) {
		c.errs.add(field, r.message)
	}
}

// need is check for a text that must be there.
func (c *checker) need(field, value string, r rule) {
	if value == "" {
		c.errs.add(field, "is required: "+r.message)
		return
	}
	c.check(field, value, r)
}

func (c *checker) pointer(field string, value *string, r rule) {
	if value != nil {
		c.check(field, *value, r)
	}
}

func (c *checker) list(field string, values []string, r rule) {
	for i, v := range values {
		c.need(index(field, i), v, r)
	}
}

// must notes message unless ok.
func (c *checker) must(ok bool, field, message string) {
	if !ok {
		c.errs.add(field, message)
	}
}

// renamed checks a deprecated field against the one that took its place.
func (c *checker) renamed(field, old, now, value string) {
	if old != "" && now != "" && old != now {
		c.errs.add(field, "is deprecated and differs from "+value+": leave one of them out")
	}
}

func (c *checker) labels(field string, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case !labelKeyRule.ok(key):
			c.errs.add(field, labelKeyRule.message)
		case !labelValueRule.ok(labels[key]):
			c.errs.add(field, "value of "+key+": "+labelValueRule.message)
		}
	}
}

func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// or is the first of two texts that is not empty.
func or[T ~string](value, otherwise T) T {
	if value == "" {
		return otherwise
	}
	return value
}
