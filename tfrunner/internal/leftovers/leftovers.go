package leftovers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	elbclassic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// How long things take. A network load balancer's interfaces, which hold its
// security group, end minutes after it.
const (
	patience      = 10 * time.Minute // for one Remove
	betweenPasses = 5 * time.Second
	betweenSweeps = 20 * time.Second // while Terraform works, which needs AWS's rate too

	// AWS throttles who deletes much at once: more attempts than the SDK's three,
	// together a minute and a half.
	callAttempts   = 8
	longestBackoff = 20 * time.Second
)

// errPatience ends a Remove that has waited long enough.
var errPatience = errors.New("waited long enough")

// Scope says whose leftovers they are.
type Scope struct {
	// Environment is the terraform_environment: the value of the tag
	// kubeopera.io/environment, and a part of the parameters' names.
	Environment string
	// Cluster is the cluster's name in Kubernetes' tags, which is the rendered
	// environment's local.cluster_name: the environment's name.
	Cluster string
}

// Remover removes the leftovers of one cluster.
type Remover struct {
	scope     Scope
	ec2       *ec2.Client
	eks       *eks.Client
	balancing *elb.Client
	classic   *elbclassic.Client
	ssm       *ssm.Client

	mu        sync.Mutex
	told      map[string]bool // what was reported
	destroyed bool            // Terraform has destroyed the environment
}

// New returns a Remover for the region of cfg. It does not talk to AWS.
func New(cfg aws.Config, scope Scope) *Remover {
	cfg = cfg.Copy()
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff, o.RateLimiter = callAttempts, longestBackoff, ratelimit.None
		})
	}
	return &Remover{
		scope: scope,
		ec2:   ec2.NewFromConfig(cfg), eks: eks.NewFromConfig(cfg), ssm: ssm.NewFromConfig(cfg),
		balancing: elb.NewFromConfig(cfg), classic: elbclassic.NewFromConfig(cfg),
		told: map[string]bool{},
	}
}

// Remove removes what there is and waits until it is gone, 10 minutes at most.
// What was removed and what is kept is reported in words, a line each. What
// cannot be removed gives a *RemainingError.
func (r *Remover) Remove(ctx context.Context, report func(string)) error {
	waiting, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	for {
		p, err := r.pass(ctx, report)
		if err != nil {
			return errors.Join(err, remaining(p.refused))
		}
		if len(p.busy) == 0 {
			return remaining(p.refused)
		}
		select {
		case <-waiting.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return remaining(append(p.refused, p.busy...))
		case <-time.After(betweenPasses):
		}
	}
}

// RemoveDuring calls destroy, removes whatever is or becomes removable until it
// returns, and returns its error. What cannot be removed is Remove's to tell.
// report may be called at the same time as destroy works.
func (r *Remover) RemoveDuring(ctx context.Context, report func(string), destroy func(context.Context) error) error {
	sweeping, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-sweeping.Done():
				return
			case <-time.After(betweenSweeps):
			}
			if _, err := r.pass(sweeping, report); err != nil && sweeping.Err() == nil {
				r.tell(report, fmt.Sprintf("warning: %v", err))
			}
		}
	})
	err := destroy(ctx)
	stop()
	wg.Wait()
	r.destroyed = err == nil
	return err
}

// tell reports a line once.
func (r *Remover) tell(report func(string), line string) {
	r.mu.Lock()
	told := r.told[line]
	r.told[line] = true
	r.mu.Unlock()
	if !told {
		report(line)
	}
}
