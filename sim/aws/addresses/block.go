// Package addresses gives load balancers and elastic IPs of the simulated
// account addresses of a loopback block, so that what listens there on this
// machine is what clients of the account reach.
//
// An elastic IP is chosen when it is allocated, and is from then on the
// emulator's own: every answer and filter has it. A load balancer's DNS name
// would have to resolve everywhere; in its place every answer has the bare
// address. Public addresses that instances get by themselves are left alone.
package addresses

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"sync"
)

// ErrExhausted says that all addresses of the block are in use.
var ErrExhausted = errors.New("no free address in the block")

// Block is a block of loopback addresses.
type Block struct {
	prefix netip.Prefix
	// allocated lists the elastic IPs that the account has in a region.
	allocated func(ctx context.Context, region string) ([]netip.Addr, error)

	mu      sync.Mutex
	last    netip.Addr
	hosts   map[string]netip.Addr // of load balancers, by the emulator's DNS name
	regions map[string]bool       // where elastic IPs were allocated
}

// New returns a block of which nothing is in use, beside the elastic IPs that
// allocated tells of.
func New(prefix netip.Prefix, allocated func(ctx context.Context, region string) ([]netip.Addr, error)) (*Block, error) {
	prefix = prefix.Masked()
	if !prefix.IsValid() || !prefix.Addr().Is4() || !prefix.Addr().IsLoopback() || prefix.Bits() < 8 || prefix.Bits() > 29 {
		return nil, fmt.Errorf("addresses: %s is no block of at least eight IPv4 loopback addresses", prefix)
	}
	if allocated == nil {
		return nil, errors.New("addresses: who is to tell what is allocated is missing")
	}
	return &Block{
		prefix: prefix, allocated: allocated, last: prefix.Addr(), hosts: map[string]netip.Addr{}, regions: map[string]bool{},
	}, nil
}

// Of gives the address of a load balancer by the DNS name that the emulator has for it.
func (b *Block) Of(dnsName string) (netip.Addr, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ip, ok := b.hosts[dnsName]
	return ip, ok
}

// allocate chooses an address for an elastic IP in a region.
func (b *Block) allocate(ctx context.Context, region string) (netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.regions[region] = true
	return b.next(ctx)
}

// host gives the address of a load balancer, chosen when it is first seen.
func (b *Block) host(ctx context.Context, dnsName string) (netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ip, ok := b.hosts[dnsName]; ok {
		return ip, nil
	}
	ip, err := b.next(ctx)
	if err == nil {
		b.hosts[dnsName] = ip
	}
	return ip, err
}

// forget takes the address from a load balancer that was deleted: the next one
// of that name gets another, as in AWS.
func (b *Block) forget(name, region string) {
	pattern := regexp.MustCompile(`^` + regexp.QuoteMeta(name) + `-\w+\.` + regexp.QuoteMeta(region) + `\.elb\.`)
	b.mu.Lock()
	defer b.mu.Unlock()
	for dnsName := range b.hosts {
		if pattern.MatchString(dnsName) {
			delete(b.hosts, dnsName)
		}
	}
}

// next goes round the block, so that an address that was given back is not
// given out again soon. Its first and last address are left out, which would
// be those of the network, and so is that of localhost. The caller holds the lock.
func (b *Block) next(ctx context.Context) (netip.Addr, error) {
	used := map[netip.Addr]bool{netip.AddrFrom4([4]byte{127, 0, 0, 1}): true}
	for _, ip := range b.hosts {
		used[ip] = true
	}
	for region := range b.regions {
		ips, err := b.allocated(ctx, region)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("find a free address: %w", err)
		}
		for _, ip := range ips {
			used[ip] = true
		}
	}
	ip := b.last
	for range 1 << (32 - b.prefix.Bits()) {
		if ip = ip.Next(); !b.prefix.Contains(ip) {
			ip = b.prefix.Addr().Next()
		}
		if !used[ip] && b.prefix.Contains(ip.Next()) {
			b.last = ip
			return ip, nil
		}
	}
	return netip.Addr{}, ErrExhausted
}
