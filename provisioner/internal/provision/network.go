package provision

import (
	"math/bits"
	"net/netip"
	"regexp"
	"slices"

	"github.com/kubeopera/platform/shared/api"
)

// The VPC's size. AWS allows /16 to /28.
const (
	minVPCBits = 16
	maxVPCBits = 24
	// maxSubnetBits leaves 27 addresses in a subnet after AWS has taken its
	// five: EKS wants 16 for its own interfaces, nodes and pods take the rest.
	maxSubnetBits = 27
	// subnetsPerZone: one for load balancers, one for nodes.
	subnetsPerZone = 2
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
	if zones == 0 {
		zones = DefaultZoneCount
	}
	longest := min(maxVPCBits, maxSubnetBits-bits.Len(uint(subnetsPerZone*min(zones, maxZones)-1)))
	switch {
	case prefix.Bits() < minVPCBits || prefix.Bits() > longest:
		c.addf(field, "must be a /%d to /%d: AWS allows no larger VPC, and each of %d zones gets %d subnets of at least a /%d",
			minVPCBits, longest, zones, subnetsPerZone, maxSubnetBits)
	case !slices.ContainsFunc(privateRanges, func(r netip.Prefix) bool { return r.Bits() <= prefix.Bits() && r.Contains(prefix.Addr()) }):
		c.addf(field, "must be private: within 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")
	}
	return prefix.String()
}

// localZone is the name of a local or wavelength zone, less its region.
var localZone = regexp.MustCompile(`^-(wl[0-9]+-)?[a-z]{3}(-wlz)?-[0-9]+[a-z]?$`)

// eksZones are at least two zones of the region; none means that the module chooses.
func (c *checker) eksZones(zones []string, region string) []string {
	const field = "availability_zones"
	if len(zones) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(zones)) // the same zones make the same subnets
	distinct := slices.Compact(slices.Clone(sorted))
	switch {
	case len(distinct) != len(sorted):
		c.addf(field, "must name each zone once")
	case len(zones) < minEKSZones || len(zones) > maxZones:
		c.addf(field, "must be %d to %d zones: EKS spreads its control plane over at least %d", minEKSZones, maxZones, minEKSZones)
	}
	if _, ok := PartitionOf(region); !ok {
		return sorted // the region has its own problem
	}
	for _, zone := range sorted {
		rest, ofRegion := cutRegion(zone, region)
		switch {
		case ofRegion && len(rest) == 1 && rest[0] >= 'a' && rest[0] <= 'z':
			continue
		case ofRegion && localZone.MatchString(rest):
			c.addf(field, "must be zones of the region itself, such as %[1]sa and %[1]sb: EKS does not run in local or wavelength zones", region)
		default:
			c.addf(field, "must be zones of the region, such as %[1]sa and %[1]sb", region)
		}
		break
	}
	return sorted
}

func cutRegion(zone, region string) (rest string, ok bool) {
	if len(zone) <= len(region) || zone[:len(region)] != region {
		return "", false
	}
	return zone[len(region):], true
}

// allowedCIDRs may reach a public API server. The whole internet is among them
// only if somebody listed it.
func (c *checker) allowedCIDRs(cidrs []string, access api.APIAccess) []string {
	const field = "api_allowed_cidrs"
	if access == api.APIAccessPrivate {
		if len(cidrs) > 0 {
			c.addf(field, "belongs to api_access public only: a private API server is reached from within the VPC")
		}
		return nil
	}
	if len(cidrs) == 0 {
		if len(c.limits.APIAllowedCIDRs) == 0 {
			c.addf(field, "is required: the IPv4 ranges that may reach the API server, such as 203.0.113.0/24; this service has no default")
		}
		return slices.Compact(slices.Sorted(slices.Values(c.limits.APIAllowedCIDRs)))
	}
	for i, problem := range checkAllowedCIDRs(cidrs) {
		if problem != "" {
			c.addf(field, "entry %d %s", i+1, problem)
		}
	}
	if len(cidrs) > maxAllowedCIDRs {
		c.addf(field, "must be at most %d ranges, which is EKS's limit", maxAllowedCIDRs)
	}
	return slices.Compact(slices.Sorted(slices.Values(cidrs)))
}
