package provision

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/kubeopera/platform/shared/api"
)

// What a VPC and a cluster's zones may be.
const (
	// AWS allows /16 to /28. The VPC module cuts a small VPC into quarters, three
	// of them for private subnets, and the rest into public ones: a /24 gives
	// /26 and /28, the smallest subnet there is. Cut into eighths, it needs a /20.
	minVPCBits      = 16
	maxVPCBits      = 24
	maxVPCBitsMany  = 20
	maxZonesOfSmall = 3
	// minEKSZones is EKS's own minimum; maxZones is the most that a region has.
	minEKSZones = 2
	maxZones    = 6
	// maxAllowedCIDRs is EKS's limit for a public endpoint.
	maxAllowedCIDRs = 40
)

// privateRanges are those of RFC 1918. EKS takes 100.64.0.0/10 as a second
// range only, and other ranges shadow hosts on the internet.
var privateRanges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
}

// unroutable ranges never are the source of a packet from the internet; EKS
// refuses them for a public endpoint.
var unroutable = append([]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
}, privateRanges...)

func (c *checker) region(region string) string {
	if region == "" {
		c.addf("region", "is required: an AWS region, one of %s", knownRegions())
	} else if _, ok := PartitionOf(region); !ok {
		c.addf("region", "must be an AWS region, one of %s", knownRegions())
	}
	return region
}

// ipv4 parses an IPv4 prefix in its canonical spelling; ok is false and the
// problem recorded for any other.
func (c *checker) ipv4(field, cidr, example string) (prefix netip.Prefix, ok bool) {
	prefix, err := netip.ParsePrefix(cidr)
	switch {
	case err != nil:
		c.addf(field, "must be an IPv4 range in CIDR notation, such as %s", example)
	case !prefix.Addr().Is4():
		c.addf(field, "must be an IPv4 range, such as %s: IPv6 is not supported", example)
	case prefix.Masked() != prefix:
		c.addf(field, "must be a network address: bits beyond the prefix length are set; the network is %s", prefix.Masked())
	default:
		return prefix, true
	}
	return prefix, false
}

// vpcCIDR is a private range with room for the subnets of the zones.
func (c *checker) vpcCIDR(cidr string, zones int) string {
	if cidr == "" {
		return DefaultVPCCIDR
	}
	const field = "vpc_cidr"
	prefix, ok := c.ipv4(field, cidr, DefaultVPCCIDR)
	if !ok {
		return cidr
	}
	longest, reason := maxVPCBits, "AWS allows no larger VPC, and a smaller one has no room for the subnets"
	if zones > maxZonesOfSmall {
		longest, reason = maxVPCBitsMany, fmt.Sprintf("the subnets of more than %d zones need that much", maxZonesOfSmall)
	}
	switch {
	case prefix.Bits() < minVPCBits || prefix.Bits() > longest:
		c.addf(field, "must be a /%d to /%d: %s", minVPCBits, longest, reason)
	case !slices.ContainsFunc(privateRanges, func(r netip.Prefix) bool { return within(prefix, r) }):
		c.addf(field, "must be private: within 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")
	}
	return prefix.String()
}

// localZone is the name of a local or wavelength zone, less its region.
var localZone = regexp.MustCompile(`^-(wl[0-9]+-)?[a-z]{3}(-wlz)?-[0-9]+[a-z]?$`)

// zones are some zones of the region, for the reason not fewer than fewest; none
// means that the module chooses. Their order stays: a zone's place decides its
// subnets' ranges.
func (c *checker) zones(zones []string, region string, fewest int, reason string) []string {
	const field = "availability_zones"
	if len(zones) == 0 {
		return nil
	}
	switch {
	case len(slices.Compact(slices.Sorted(slices.Values(zones)))) != len(zones):
		c.addf(field, "must name each zone once")
	case len(zones) < fewest || len(zones) > maxZones:
		c.addf(field, "must be %d to %d zones: %s", fewest, maxZones, reason)
	}
	if _, ok := PartitionOf(region); !ok {
		return slices.Clone(zones) // the region has its own problem
	}
	for _, zone := range zones {
		rest, ofRegion := cutRegion(zone, region)
		switch {
		case ofRegion && len(rest) == 1 && rest[0] >= 'a' && rest[0] <= 'z':
			continue
		case ofRegion && localZone.MatchString(rest):
			c.addf(field, "must be zones of the region itself, such as %[1]sa and %[1]sb: no local or wavelength zones", region)
		default:
			c.addf(field, "must be zones of the region, such as %[1]sa and %[1]sb", region)
		}
		break
	}
	return slices.Clone(zones)
}

func cutRegion(zone, region string) (rest string, ok bool) {
	if len(zone) <= len(region) || zone[:len(region)] != region {
		return "", false
	}
	return zone[len(region):], true
}

// allowedCIDRs may reach the API server: at its public address, or inside the
// VPC if it has none. The whole internet is among them only if somebody listed it.
func (c *checker) allowedCIDRs(cidrs []string, access api.APIAccess) []string {
	const field = "api_allowed_cidrs"
	public := access == api.APIAccessPublic
	if public && len(cidrs) == 0 {
		cidrs = c.limits.APIAllowedCIDRs
		if len(cidrs) == 0 {
			c.addf(field, "is required: the IPv4 ranges that may reach the API server, such as 203.0.113.0/24; this service has no default")
		}
	}
	if len(cidrs) > maxAllowedCIDRs {
		c.addf(field, "must be at most %d ranges, which is EKS's limit", maxAllowedCIDRs)
	}
	for i, cidr := range cidrs {
		c.allowedCIDR(fmt.Sprintf("%s[%d]", field, i), cidr, public)
	}
	return slices.Compact(slices.Sorted(slices.Values(cidrs)))
}

func (c *checker) allowedCIDR(field, cidr string, public bool) {
	prefix, ok := c.ipv4(field, cidr, "203.0.113.0/24")
	if ok && public && slices.ContainsFunc(unroutable, func(r netip.Prefix) bool { return within(prefix, r) }) {
		c.addf(field, "must be public: no packet from a private or reserved address reaches a public API server")
	}
}

// within says whether all of p is in r.
func within(p, r netip.Prefix) bool { return r.Bits() <= p.Bits() && r.Contains(p.Addr()) }
