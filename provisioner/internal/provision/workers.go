package provision

import (
	"regexp"
	"strings"
)

// workers are the node group's counts. An absent minimum or maximum is the
// count; an absent count is the default, within the minimum and maximum.
func (c *checker) workers(count, fewest, most *int) (int, int, int) {
	n := DefaultWorkerCount
	switch {
	case count != nil:
		n = *count
	case fewest != nil && *fewest > n:
		n = *fewest
	case most != nil && *most < n:
		n = *most
	}
	low, high, ok := n, n, c.inRange("worker_count", n)
	if fewest != nil {
		low = *fewest
		ok = c.inRange("worker_min", low) && ok
	}
	if most != nil {
		high = *most
		ok = c.inRange("worker_max", high) && ok
	}
	if !ok {
		return n, low, high
	}
	if low > high {
		c.addf("worker_min", "must not be more than worker_max")
	}
	switch {
	case n < low:
		c.addf("worker_count", "must not be less than worker_min")
	case n > high:
		c.addf("worker_count", "must not be more than worker_max")
	}
	return n, low, high
}

func (c *checker) inRange(field string, n int) bool {
	if n >= 1 && n <= c.limits.MaxWorkers {
		return true
	}
	// None would leave CoreDNS, and with it the whole cluster, pending for ever.
	c.addf(field, "must be 1 to %d", c.limits.MaxWorkers)
	return false
}

// instanceType is a family and a size, such as t3.large or u-6tb1.56xlarge.
var instanceType = regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9][a-z0-9-]*$`)

const maxInstanceType = 32

func (c *checker) instanceType(field, t, fallback string) string {
	switch {
	case t == "":
		return fallback
	case len(t) > maxInstanceType || !instanceType.MatchString(t):
		c.addf(field, "must be an EC2 instance type, such as %s", fallback)
	case strings.HasPrefix(t, "mac"):
		c.addf(field, "must be an instance type that runs Linux, such as %s", fallback)
	}
	return t
}
