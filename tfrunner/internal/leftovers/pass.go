package leftovers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/kubeopera/platform/shared/runner/awsconfig"
)

// pass is one look at everything there is, with an attempt to remove each.
type pass struct {
	*Remover
	report func(string)
	vpcs   []string // the environment's; more than one only if somebody copied its tags

	busy    []Remaining // may be removable later
	refused []Remaining // will not be
}

// pass removes what can be removed now. Its error is one of listing; whatever
// could be listed was still worked on.
func (r *Remover) pass(ctx context.Context, report func(string)) (*pass, error) {
	p := &pass{Remover: r, report: report}
	var err error
	if p.vpcs, err = r.ownVPCs(ctx); err != nil {
		if ctx.Err() != nil {
			return p, context.Cause(ctx)
		}
		return p, err
	}
	steps := []func(context.Context) error{p.volumes, p.snapshots}
	if len(p.vpcs) > 0 {
		if r.destroyed { // AWS lists what was deleted a moment longer
			p.busy = append(p.busy, Remaining{Kind: KindVPC, ID: p.vpcs[0], Reason: "is still there", Action: "destroy again"})
		}
		steps = []func(context.Context) error{p.balancers, p.classicBalancers, p.targetGroups, p.networkInterfaces, p.securityGroups}
	}
	var errs []error
	for _, step := range steps {
		if err := step(ctx); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return p, context.Cause(ctx)
		}
	}
	return p, errors.Join(errs...)
}

// ownVPCs lists the VPCs that Terraform made for the environment.
func (r *Remover) ownVPCs(ctx context.Context) ([]string, error) {
	var ids []string
	pages := ec2.NewDescribeVpcsPaginator(r.ec2, &ec2.DescribeVpcsInput{
		Filters: []types.Filter{filter("tag:"+tagEnvironment, r.scope.Environment)},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list VPCs: %w", err)
		}
		for _, v := range page.Vpcs {
			ids = append(ids, aws.ToString(v.VpcId))
		}
	}
	return ids, nil
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// remove removes one thing by a call and files what came of it.
func (p *pass) remove(kind Kind, id string, call func() error) {
	err := call()
	if err == nil {
		p.tell(p.report, fmt.Sprintf("removed %s %s", kind, id))
		return
	}
	apiErr, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		// Not AWS's word: the network, or ctx has ended.
		p.busy = append(p.busy, Remaining{Kind: kind, ID: id, Reason: err.Error(), Action: "destroy again"})
		return
	}
	code := apiErr.ErrorCode()
	left := Remaining{Kind: kind, ID: id, Reason: code + ": " + apiErr.ErrorMessage()}
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	refusal := awsconfig.Refusal(err)
	switch {
	case strings.Contains(code, "NotFound"): // somebody else was faster
	case refusal != nil && refusal.Reason == awsconfig.ReasonDenied:
		left.Action = "allow the credential to do so, or remove it by hand; then destroy again"
		p.refused = append(p.refused, left)
	case code == "OperationNotPermitted" || code == "InvalidConfigurationRequest":
		left.Action = "switch off what protects it, such as deletion protection, then destroy again"
		p.refused = append(p.refused, left)
	case code == "InvalidSnapshot.InUse":
		left.Action = "deregister the image that uses it, or tag it " + tagRetain + "=true to keep it; then destroy again"
		p.refused = append(p.refused, left)
	case isInUse(code):
		left.Action = "find out what uses it and remove that, then destroy again"
		p.busy = append(p.busy, left)
	case throttled || apiErr.ErrorFault() == smithy.FaultServer:
		left.Action = "destroy again"
		p.busy = append(p.busy, left)
	default:
		left.Action = "remove it by hand, then destroy again"
		p.refused = append(p.refused, left)
	}
}

// isInUse says whether an error code means that something else must go first.
func isInUse(code string) bool {
	switch code {
	case "DependencyViolation", "IncorrectState", "InvalidNetworkInterface.InUse", "ResourceInUse", "VolumeInUse":
		return true
	}
	return false
}
