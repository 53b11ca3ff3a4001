package aws

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"time"

	"github.com/kubeopera/platform/sim/aws/account"
	"github.com/kubeopera/platform/sim/aws/eks"
	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/policy"
	"github.com/kubeopera/platform/sim/aws/ssm"
	"github.com/kubeopera/platform/sim/aws/sts"
)

// SessionLifetime is how long an instance's credentials are valid.
const SessionLifetime = 6 * time.Hour

// SSM gives a look into Parameter Store.
func (a *Account) SSM() *ssm.Service { return a.ssm }

// Instances lists a region's EC2 instances, launched by a call or by an Auto
// Scaling group, those that were terminated among them.
func (a *Account) Instances(ctx context.Context, region string) ([]account.Instance, error) {
	return a.client.Instances(ctx, region)
}

// UserData returns an instance's user data as its metadata service gives it.
func (a *Account) UserData(ctx context.Context, region, id string) ([]byte, error) {
	return a.client.UserData(ctx, region, id)
}

// Terminate ends an instance, as somebody at the console would.
func (a *Account) Terminate(ctx context.Context, region, id string) error {
	return a.client.Terminate(ctx, region, id)
}

// ProfileRole returns the ARN of the role in an instance profile.
func (a *Account) ProfileRole(ctx context.Context, profileARN string) (string, error) {
	return a.client.ProfileRole(ctx, profileARN)
}

// RegisterSession makes credentials of a role for an instance, as its metadata
// service gives them. What they may do in Parameter Store is what the role's
// policies say; in other services they may do everything.
func (a *Account) RegisterSession(roleARN, instanceID string) (keyring.Key, error) {
	if !instanceIDPattern.MatchString(instanceID) {
		return keyring.Key{}, fmt.Errorf("register session: %q is no instance's id", instanceID)
	}
	key, err := sts.Session(roleARN, instanceID, time.Now().Add(SessionLifetime))
	if err != nil {
		return keyring.Key{}, fmt.Errorf("register session: %w", err)
	}
	if err := a.keys.Register(key); err != nil {
		return keyring.Key{}, err
	}
	return key, nil
}

// Address is an address of the block, and what it stands for: a load balancer
// or an elastic IP.
type Address struct {
	IP           netip.Addr
	Region       string
	LoadBalancer *account.LoadBalancer // nil: an elastic IP
	ElasticIP    *account.ElasticIP    // nil: a load balancer
}

// Addresses lists the addresses of the block that are in use in a region.
func (a *Account) Addresses(ctx context.Context, region string) ([]Address, error) {
	if a.block == nil {
		return nil, nil
	}
	balancers, err := a.client.LoadBalancers(ctx, region)
	if err != nil {
		return nil, err
	}
	var list []Address
	for _, b := range balancers {
		// One that no answer has named yet has no address yet.
		if ip, ok := a.block.Of(b.DNSName); ok {
			list = append(list, Address{IP: ip, Region: region, LoadBalancer: &b})
		}
	}
	elastic, err := a.client.ElasticIPs(ctx, region)
	if err != nil {
		return nil, err
	}
	for _, e := range elastic {
		if a.cfg.Addresses.Contains(e.Address) {
			list = append(list, Address{IP: e.Address, Region: region, ElasticIP: &e})
		}
	}
	return list, nil
}

// elasticIPs is what the block has to know of the account.
func (a *Account) elasticIPs(ctx context.Context, region string) ([]netip.Addr, error) {
	elastic, err := a.client.ElasticIPs(ctx, region)
	var ips []netip.Addr
	for _, e := range elastic {
		ips = append(ips, e.Address)
	}
	return ips, err
}

var (
	instanceIDPattern = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)
	sessionPattern    = regexp.MustCompile(`^arn:aws[\w-]*:sts::\d{12}:assumed-role/([^/]+)/(i-[0-9a-f]{8,17})$`)
)

// rolePolicies lets instances do what their roles' policies allow. All other
// callers may do everything.
type rolePolicies struct{ client *account.Client }

var _ ssm.Authorizer = rolePolicies{}

func (p rolePolicies) Authorize(ctx context.Context, access ssm.Access) (bool, error) {
	session := sessionPattern.FindStringSubmatch(access.PrincipalARN)
	if session == nil {
		return true, nil
	}
	documents, err := p.client.RolePolicies(ctx, session[1])
	if errors.Is(err, eks.ErrNotFound) {
		return false, nil // the role was deleted while the session lives
	}
	if err != nil {
		return false, err
	}
	return policy.Allows(documents, access.Action, access.Resource), nil
}
